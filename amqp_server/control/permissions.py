"""The commands `permissions.*` and `topic_permissions.*`."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Permissions, TopicPermissions
from amqp_server.control.registry import Command
from amqp_server.control.users import done, in_steps

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl

logger = logging.getLogger(__name__)


async def set_permissions(
    access: AccessControl, vhost: str, user: str, configure: str, write: str, read: str
) -> None:
    """Set what a user may do in a virtual host."""
    await done(access.set_permissions(vhost, user, Permissions(configure, write, read)))
    logger.info(
        "permissions set user=%r vhost=%r configure=%r write=%r read=%r",
        *(user, vhost, configure, write, read),
    )


async def clear_permissions(access: AccessControl, vhost: str, user: str) -> bool:
    """Remove what a user may do in a virtual host; return whether there was anything."""
    existed = await done(access.clear_permissions(vhost, user))
    logger.info("permissions cleared user=%r vhost=%r", user, vhost)
    return bool(existed)


async def list_permissions(
    access: AccessControl, vhost: str | None = None, user: str | None = None
) -> list[dict[str, str]]:
    """Return permissions by virtual host and user: of one virtual host, of one user, or all."""
    found = [
        (in_vhost, of_user, permissions)
        for in_vhost, users in sorted(access.permissions.items())
        for of_user, permissions in sorted(users.items())
        if vhost in (None, in_vhost) and user in (None, of_user)
    ]
    return [
        {
            "vhost": in_vhost,
            "user": of_user,
            "configure": each.configure,
            "write": each.write,
            "read": each.read,
        }
        async for in_vhost, of_user, each in in_steps(found)
    ]


async def set_topic_permissions(
    access: AccessControl, vhost: str, user: str, exchange: str, write: str, read: str
) -> None:
    """Set with which routing keys a user may work at a topic exchange."""
    topic = TopicPermissions(write, read)
    await done(access.set_topic_permissions(vhost, user, exchange, topic))
    logger.info(
        "topic permissions set user=%r vhost=%r exchange=%r write=%r read=%r",
        *(user, vhost, exchange, write, read),
    )


async def clear_topic_permissions(
    access: AccessControl, vhost: str, user: str, exchange: str | None = None
) -> bool:
    """Remove such permissions, of one exchange or of all; return whether there was any."""
    existed = await done(access.clear_topic_permissions(vhost, user, exchange))
    logger.info("topic permissions cleared user=%r vhost=%r exchange=%r", user, vhost, exchange)
    return bool(existed)


async def list_topic_permissions(
    access: AccessControl, vhost: str | None = None, user: str | None = None
) -> list[dict[str, str]]:
    """Return topic permissions by virtual host, user and exchange, as `list_permissions` does."""
    found = [
        (in_vhost, of_user, exchange, topic)
        for in_vhost, users in sorted(access.topics.items())
        for of_user, topics in sorted(users.items())
        if vhost in (None, in_vhost) and user in (None, of_user)
        for exchange, topic in sorted(topics.items())
    ]
    return [
        {
            "vhost": in_vhost,
            "user": of_user,
            "exchange": exchange,
            "write": each.write,
            "read": each.read,
        }
        async for in_vhost, of_user, exchange, each in in_steps(found)
    ]


def permission_commands(access: AccessControl) -> tuple[Command, ...]:
    """Return the commands of a server with these permissions."""
    row = {"vhost": str, "user": str}
    return (
        Command("permissions.list", partial(list_permissions, access), optional=row),
        Command(
            "permissions.set",
            partial(set_permissions, access),
            {**row, "configure": str, "write": str, "read": str},
        ),
        Command("permissions.clear", partial(clear_permissions, access), row),
        Command("topic_permissions.list", partial(list_topic_permissions, access), optional=row),
        Command(
            "topic_permissions.set",
            partial(set_topic_permissions, access),
            {**row, "exchange": str, "write": str, "read": str},
        ),
        Command(
            "topic_permissions.clear",
            partial(clear_topic_permissions, access),
            row,
            {"exchange": str},
        ),
    )
