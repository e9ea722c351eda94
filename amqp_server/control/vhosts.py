"""The commands `vhosts.add`, `vhosts.list` and `vhosts.delete`."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.broker.vhost_changes import (
    NoSuchVhostError,
    TooManyVhostsError,
    VhostExistsError,
    VhostNameError,
)
from amqp_server.control.messages import ControlError, ErrorKind
from amqp_server.control.registry import Command
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.vhost_changes import VhostChanges
    from amqp_server.connections import OpenConnections

logger = logging.getLogger(__name__)


async def add(changes: VhostChanges, name: str, *, grants_default_user: bool = True) -> None:
    """Create a virtual host; return when it would survive a crash."""
    await _done(changes.create(name, grants_default_user=grants_default_user))
    logger.info("vhost added vhost=%s", name)


async def delete(changes: VhostChanges, name: str) -> None:
    """Delete a virtual host with everything in it; return when nothing of it can come back."""
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
    except NoSuchVhostError as error:
        raise ControlError(ErrorKind.NOT_FOUND, str(error)) from error
    except TooManyVhostsError as error:
        raise ControlError(ErrorKind.LIMIT_REACHED, str(error)) from error
    except MetadataError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error


def vhost_commands(
    broker: Broker, changes: VhostChanges, open_connections: OpenConnections
) -> tuple[Command, ...]:
    """Return the commands `vhosts.*` of a server with these parts."""
    return (
        Command("vhosts.add", partial(add, changes), {"name": str}, {"grants_default_user": bool}),
        Command("vhosts.list", partial(list_all, broker, open_connections)),
        Command("vhosts.delete", partial(delete, changes), {"name": str}),
    )
