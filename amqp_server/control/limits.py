"""The commands `limits.list`, `limits.set` and `limits.clear`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.access.errors import NoSuchUserError, NoSuchVhostError
from amqp_server.access.user import InvalidUserError
from amqp_server.broker.vhost_limits import InvalidLimitError
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.broker import Broker
    from amqp_server.connections.connection_limits import ConnectionLimits
    from amqp_server.operations.limit_settings import LimitSettings

VHOST: Final = "vhost"
USER: Final = "user"


async def list_all(
    broker: Broker, settings: LimitSettings, counts: ConnectionLimits
) -> dict[str, list[dict[str, object]]]:
    """Return the virtual hosts and the users that have limits, with what they use of them."""
    vhosts, users = await settings.of_vhosts(), await settings.of_users()
    return {
        "vhosts": [
            {
                "name": name,
                "limits": limits,
                "connections": vhost.connection_count,
                "queues": len(vhost.queues),
            }
            for name, limits in vhosts.items()
            # It may have been deleted in between.
            if (vhost := broker.vhosts.get(name)) is not None
        ],
        "users": [
            {
                "name": name,
                "limits": limits,
                "connections": counts.connections_of_user(name),
                "channels": counts.channels_of_user(name),
            }
            for name, limits in users.items()
        ],
    }


async def set_some(
    settings: LimitSettings, kind: str, name: str, limits: dict[str, Any], replace: bool
) -> dict[str, object]:
    """Set limits; return those before and after, when they are on the disk.

    Args:
        settings: Limits of the server.
        kind: `vhost` or `user`.
        name: Name of the virtual host or user.
        limits: Values by name; -1 is no limit.
        replace: Whether limits that are not given end.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    before = _limits_of(settings, kind, name)
    if kind == VHOST:
        await _done(settings.set_vhost(name, limits, replace=replace))
    else:
        await _done(settings.set_user(name, limits, replace=replace))
    return {"before": before, "after": _limits_of(settings, kind, name)}


async def clear(
    settings: LimitSettings, kind: str, name: str, limits: list[Any]
) -> dict[str, object]:
    """End limits; return those before and after, when that is on the disk.

    Args:
        settings: Limits of the server.
        kind: `vhost` or `user`.
        name: Name of the virtual host or user.
        limits: Names of limits; empty for all.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    before = _limits_of(settings, kind, name)
    names = [str(each) for each in limits]
    if kind == VHOST:
        await _done(settings.clear_vhost(name, names))
    else:
        await _done(settings.clear_user(name, names))
    return {"before": before, "after": _limits_of(settings, kind, name)}


def _limits_of(settings: LimitSettings, kind: str, name: str) -> dict[str, int]:
    match kind:
        case "vhost":
            return settings.of_vhost(name)
        case "user":
            return settings.of_user(name)
    reason = f"kind is '{kind}', must be {VHOST} or {USER}"
    raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)


async def _done(change: Awaitable[None]) -> None:
    """Wait for a change and convert its errors.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    try:
        await change
    except (InvalidLimitError, InvalidUserError) as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
    except (NoSuchVhostError, NoSuchUserError) as error:
        raise ControlError(ErrorKind.NOT_FOUND, str(error)) from error
    except MetadataError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error


def limit_commands(
    broker: Broker, settings: LimitSettings, counts: ConnectionLimits
) -> tuple[Command, ...]:
    """Return the commands `limits.*` of a server with these parts."""
    return (
        Command("limits.list", partial(list_all, broker, settings, counts)),
        Command(
            "limits.set",
            partial(set_some, settings),
            {"kind": str, "name": str, "limits": dict, "replace": bool},
        ),
        Command(
            "limits.clear", partial(clear, settings), {"kind": str, "name": str, "limits": list}
        ),
    )
