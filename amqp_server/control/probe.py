"""The command `probe`: what checks of health ask every few seconds."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from amqp_server.control.status import StatusSources

COMPATIBLE_VERSION: Final = "3.13.7"
"""Version of RabbitMQ whose interfaces the server has; the HTTP API tells the same one."""


async def probe(sources: StatusSources) -> dict[str, object]:
    """Return what a check of health needs; unlike `status` it counts nothing."""
    vhosts = sources.broker.vhosts.values()
    return {
        "pid": os.getpid(),
        "compatible_version": COMPATIBLE_VERSION,
        "is_suspended": sources.open_connections.is_suspended,
        "listeners": sources.management.listeners,
        "alarms": sources.alarms.low,
        "damaged_vhosts": [
            each.name for each in vhosts if each.damaged.queues or each.damaged.exchanges
        ],
    }


def probe_commands(sources: StatusSources) -> tuple[Command, ...]:
    """Return the command `probe` of a server."""
    return (Command("probe", partial(probe, sources)),)
