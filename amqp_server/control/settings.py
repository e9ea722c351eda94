"""The commands of settings: what is in effect, and what changes until the next start."""

from __future__ import annotations

import dataclasses
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.base.config import BOUNDS, LOG_LEVELS
from amqp_server.base.limits import MIB
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.upkeep.resource_sensor import watermark_bytes

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig
    from amqp_server.upkeep.alarms import Alarms

logger = logging.getLogger("amqp_server.control.settings")

_HIDDEN: Final = frozenset(["default_password", "limits", "optional_ports"])
"""Fields that are secret, or no setting."""
_USER_INFO: Final = re.compile(r"(?<=:)//[^/?#\s]*@")
"""User name and password in the address of a back end."""


async def show(config: ServerConfig, alarms: Alarms) -> dict[str, Any]:
    """Return the settings by the name of their field, without passwords.

    Args:
        config: Settings of the start.
        alarms: Alarms of the server, whose limits may have changed since.
    """
    fields = {each.name for each in dataclasses.fields(config)} - _HIDDEN
    found = {name: _as_json(getattr(config, name)) for name in sorted(fields)}
    return {
        **found,
        "log_level": logging.getLevelName(logging.getLogger().level).lower(),
        "memory_bytes_max": alarms.memory_bytes_max,
        "disk_free_limit_bytes": alarms.disk_free_bytes_min,
    }


async def set_log_level(level: str) -> None:
    """Set the least severe level that is logged, until the next start.

    Raises:
        ControlError: There is no such level.
    """
    if level not in LOG_LEVELS:
        reason = f"log level '{level}' is not one of {', '.join(LOG_LEVELS)}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    logging.getLogger().setLevel(level.upper())
    logger.warning("log level set level=%s", level)


async def set_memory_limit(alarms: Alarms, watermark: str) -> None:
    """Set above which memory the alarm is on, until the next start.

    Args:
        alarms: Alarms of the server.
        watermark: A number: up to 1 a share of the memory of the machine or container, else bytes.
            0 blocks all who publish.

    Raises:
        ControlError: The value is out of bounds.
    """
    bounds = BOUNDS["memory_watermark"]
    try:
        limit = float(watermark)
    except ValueError:
        limit = -1.0
    if limit not in bounds or 1 < limit < MIB:
        reason = (
            f"memory limit '{watermark}' is out of bounds: write a share of {bounds.least} to 1, "
            f"or {MIB} to {bounds.most} bytes"
        )
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    alarms.memory_bytes_max = watermark_bytes(limit)
    await alarms.look()
    logger.warning("memory limit set bytes=%d", alarms.memory_bytes_max)


async def set_disk_limit(alarms: Alarms, bytes_min: int) -> None:
    """Set below which free space of the disk the alarm is on, until the next start.

    Raises:
        ControlError: The value is out of bounds.
    """
    bounds = BOUNDS["disk_free_limit_bytes"]
    if bytes_min not in bounds:
        reason = (
            f"a disk limit of {bytes_min} bytes is out of bounds: write 0, or {bounds.least} to "
            f"{bounds.most}"
        )
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    alarms.disk_free_bytes_min = bytes_min
    await alarms.look()
    logger.warning("disk limit set bytes=%d", bytes_min)


def setting_commands(config: ServerConfig, alarms: Alarms) -> tuple[Command, ...]:
    """Return the commands of settings of a server with these parts."""
    return (
        Command("settings.list", partial(show, config, alarms)),
        Command(
            "settings.set_log_level",
            set_log_level,
            {"level": str},
            audited=Audited("setting.changed", details=("level",)),
        ),
        Command(
            "settings.set_memory_limit",
            partial(set_memory_limit, alarms),
            {"watermark": str},
            audited=Audited("setting.changed", details=("watermark",)),
        ),
        Command(
            "settings.set_disk_limit",
            partial(set_disk_limit, alarms),
            {"bytes_min": int},
            audited=Audited("setting.changed", details=("bytes_min",)),
        ),
    )


def _as_json(value: object) -> Any:  # noqa: ANN401 - JSON values
    if value is None or isinstance(value, bool | int | float):
        return value
    return _USER_INFO.sub("//***@", str(value))
