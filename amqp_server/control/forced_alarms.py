"""The command `alarms.hold`: an operator forces an alarm on, to see what clients do during it."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command

if TYPE_CHECKING:
    from amqp_server.upkeep.alarms import Alarms

logger = logging.getLogger("amqp_server.control.held_alarms")

_RESOURCES: Final = ("memory", "disk")


async def force(alarms: Alarms, resource: str, is_on: bool) -> None:
    """Keep an alarm on whatever is measured, or let it follow the measurements again.

    Args:
        alarms: Alarms of the server.
        resource: `memory` or `disk`.
        is_on: Whether the alarm is kept on.

    Raises:
        ControlError: The resource has no alarm.
    """
    if resource not in _RESOURCES:
        reason = f"resource '{resource}' has no alarm: it is one of {', '.join(_RESOURCES)}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    alarms.force(resource, is_on=is_on)
    logger.warning("alarm held resource=%s is_on=%s", resource, is_on)


def alarm_commands(alarms: Alarms) -> tuple[Command, ...]:
    """Return the command `alarms.hold` of a server."""
    return (
        Command(
            "alarms.hold",
            partial(force, alarms),
            {"resource": str, "is_on": bool},
            audited=Audited("alarm.held", name="resource", details=("is_on",)),
        ),
    )
