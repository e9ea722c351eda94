"""The commands `vhosts.add`, `vhosts.set`, `vhosts.trace`, `vhosts.list` and `vhosts.delete`."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.access.errors import NoSuchVhostError as NoVhostError
from amqp_server.access.permissions import FULL
from amqp_server.broker.vhost_changes import (
    NoSuchVhostError,
    TooManyVhostsError,
    VhostExistsError,
    VhostNameError,
)
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.control.requesting_user import requesting_login, requesting_user
from amqp_server.control.users import done, texts
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.vhost_changes import VhostChanges
    from amqp_server.connections.open_connections import OpenConnections
    from amqp_server.operations.parameter_settings import ParameterSettings

logger = logging.getLogger("amqp_server.control.vhosts")

PROTECTED: Final = "protected_from_deletion"
"""Member of the description of a virtual host that may not be deleted."""
DESCRIPTION_BYTES_MAX: Final = 64 * 1024
"""Largest description, as JSON."""


async def add(changes: VhostChanges, name: str, *, grants_default_user: bool = True) -> None:
    """Create a virtual host; return when it would survive a crash."""
    await _done(changes.create(name, grants_default_user=grants_default_user))
    logger.info("vhost added vhost=%s", name)


async def set_one(
    broker: Broker,
    changes: VhostChanges,
    access: AccessControl,
    settings: ParameterSettings,
    name: str,
    description: str | None = None,
    tags: list[Any] | None = None,
    default_queue_type: str | None = None,
    protected: bool | None = None,
) -> dict[str, bool]:
    """Create a virtual host if it is missing, and describe it; return whether it is new.

    The user for whom the request is made gets all rights in a new one.

    Args:
        broker: Broker of the server.
        changes: Creates virtual hosts.
        access: Users and permissions.
        settings: Changes descriptions.
        name: Name of the virtual host.
        description: Description; None: unchanged.
        tags: Tags, texts; None: unchanged.
        default_queue_type: Kept for other programs; None: unchanged.
        protected: Whether it may not be deleted; None: unchanged.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    described: dict[str, Any] = {}
    if description is not None:
        described["description"] = description
    if tags is not None:
        described["tags"] = list(texts("tags", tags))
    if default_queue_type is not None:
        described["default_queue_type"] = default_queue_type
    if protected is not None:
        described[PROTECTED] = protected or None
    size = len(orjson.dumps(described))
    if size > DESCRIPTION_BYTES_MAX:
        reason = f"the description has {size} bytes, at most {DESCRIPTION_BYTES_MAX} are allowed"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    is_new = name not in broker.vhosts and await _create(changes, access, name)
    if described:
        await _done(settings.describe_vhost(name, described))
    return {"created": is_new}


async def _create(changes: VhostChanges, access: AccessControl, name: str) -> bool:
    """Create a virtual host; return whether it is new: another request may have been quicker."""
    user = requesting_user.get()
    try:
        await _done(changes.create(name, grants_default_user=not user))
    except ControlError as error:
        if error.kind is ErrorKind.ALREADY_EXISTS:
            return False
        raise
    logger.info("vhost added vhost=%s", name)
    if user in access.users and not requesting_login.get():
        await done(access.set_permissions(name, user, FULL))
    return True


async def trace(broker: Broker, name: str, *, is_on: bool) -> None:
    """Begin or end to tell the exchange `amq.rabbitmq.trace` of messages, until the next start.

    Raises:
        ControlError: There is no such virtual host.
    """
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{name}' does not exist")
    vhost.trace(is_on=is_on)
    logger.info("vhost traced vhost=%s is_on=%s", name, is_on)


async def delete(broker: Broker, changes: VhostChanges, name: str) -> None:
    """Delete a virtual host with everything in it; return when nothing of it can come back.

    Raises:
        ControlError: It does not exist, is protected, or the disk failed.
    """
    host = broker.vhosts.get(name)
    if host is not None and host.metadata.get(PROTECTED):
        reason = f"vhost '{name}' is protected from deletion"
        raise ControlError(ErrorKind.IN_USE, reason)
    await _done(changes.delete(name))
    logger.info("vhost deleted vhost=%s", name)


async def list_all(broker: Broker, open_connections: OpenConnections) -> list[dict[str, object]]:
    """Return the virtual hosts by name, each with counts of what it holds."""
    connections = Counter(connection.vhost for connection in open_connections)
    return [
        {
            "name": name,
            "connections": connections[name],
            "queues": len(vhost.queues),
            "tracing": vhost.firehose is not None,
            "messages_ready": sum(queue.ready_count for queue in vhost.queues.values()),
            "damaged_queues": len(vhost.damaged.queues),
            "damaged_exchanges": len(vhost.damaged.exchanges),
        }
        for name, vhost in sorted(broker.vhosts.items())
    ]


async def _done(change: Awaitable[None]) -> None:
    """Wait for a change and convert its errors.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    try:
        await change
    except VhostNameError as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
    except VhostExistsError as error:
        raise ControlError(ErrorKind.ALREADY_EXISTS, str(error)) from error
    except (NoSuchVhostError, NoVhostError) as error:
        raise ControlError(ErrorKind.NOT_FOUND, str(error)) from error
    except TooManyVhostsError as error:
        raise ControlError(ErrorKind.LIMIT_REACHED, str(error)) from error
    except MetadataError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error


def vhost_commands(
    broker: Broker,
    changes: VhostChanges,
    open_connections: OpenConnections,
    access: AccessControl,
    settings: ParameterSettings,
) -> tuple[Command, ...]:
    """Return the commands `vhosts.*` of a server with these parts."""
    return (
        Command("vhosts.add", partial(add, changes), {"name": str}, {"grants_default_user": bool}),
        Command("vhosts.list", partial(list_all, broker, open_connections)),
        Command(
            "vhosts.set",
            partial(set_one, broker, changes, access, settings),
            {"name": str},
            {"description": str, "tags": list, "default_queue_type": str, "protected": bool},
        ),
        Command(
            "vhosts.trace",
            partial(trace, broker),
            {"name": str, "is_on": bool},
            audited=Audited("vhost.traced", "name", ("is_on",)),
        ),
        Command("vhosts.delete", partial(delete, broker, changes), {"name": str}),
    )
