"""The commands `permissions.*` and `topic_permissions.*`."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Permissions, TopicPermissions
from amqp_server.control.registry import Command
from amqp_server.control.users import done

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.access.access_control import AccessControl

logger = logging.getLogger("amqp_server.control.permissions")


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
    # As in `users.list`: copied here, sorted in a worker.
    copied = {
        each: dict(users) for each, users in access.permissions.items() if vhost in (None, each)
    }
    return await asyncio.to_thread(_rows, copied, user)


def _rows(
    permissions: Mapping[str, Mapping[str, Permissions]], user: str | None
) -> list[dict[str, str]]:
    return [
        {
            "vhost": in_vhost,
            "user": of_user,
            "configure": each.configure,
            "write": each.write,
            "read": each.read,
        }
        for in_vhost, users in sorted(permissions.items(), key=itemgetter(0))
        for of_user, each in sorted(users.items(), key=itemgetter(0))
        if user in (None, of_user)
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
    # The value in `topics` for one user is replaced, never changed.
    copied = {each: dict(users) for each, users in access.topics.items() if vhost in (None, each)}
    return await asyncio.to_thread(_topic_rows, copied, user)


def _topic_rows(
    topics: Mapping[str, Mapping[str, Mapping[str, TopicPermissions]]], user: str | None
) -> list[dict[str, str]]:
    return [
        {
            "vhost": in_vhost,
            "user": of_user,
            "exchange": exchange,
            "write": each.write,
            "read": each.read,
        }
        for in_vhost, users in sorted(topics.items(), key=itemgetter(0))
        for of_user, of_exchanges in sorted(users.items(), key=itemgetter(0))
        if user in (None, of_user)
        for exchange, each in sorted(of_exchanges.items(), key=itemgetter(0))
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
