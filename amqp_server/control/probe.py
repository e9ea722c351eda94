"""The command `probe`: what checks of health ask every few seconds."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.broker.policies.unknown_policy import UNKNOWN_MAX
from amqp_server.control.registry import Command
from amqp_server.control.status import damaged_objects

if TYPE_CHECKING:
    from amqp_server.control.status import StatusSources


async def probe(sources: StatusSources, version: str) -> dict[str, object]:
    """Return what a check of health needs; unlike `status` it counts nothing."""
    vhosts = sources.broker.vhosts.values()
    return {
        "pid": os.getpid(),
        "compatible_version": version,
        "is_suspended": sources.open_connections.is_suspended,
        "are_listeners_suspended": sources.open_connections.are_listeners_suspended,
        "listeners": sources.management.listeners,
        "alarms": sources.alarms.low,
        "disk_stall": stall.operation.name if (stall := sources.alarms.stall) else "",
        "damage": [
            f"{each['kind']} {each['encoded_name'] or '(all)'} of vhost {each['vhost']!r}: "
            f"{each['reason']}"
            for each in damaged_objects(sources.broker)[:UNKNOWN_MAX]
        ],
        "damaged_vhosts": [
            each.name
            for each in vhosts
            if each.damaged.queues or each.damaged.exchanges or each.policies.are_unknown
        ],
    }


def probe_commands(sources: StatusSources, version: str) -> tuple[Command, ...]:
    """Return the command `probe` of a server, which shows the version of RabbitMQ as `version`."""
    return (Command("probe", partial(probe, sources, version)),)
