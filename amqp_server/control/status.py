"""The command `status`: returns what is running, since when, and how much it holds."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from amqp_server import __version__
from amqp_server.broker.damaged_documents import SINGULARS
from amqp_server.broker.policies.documents import POLICY_KINDS
from amqp_server.broker.turn_watch import BOUNDS_SECONDS
from amqp_server.control.registry import Command
from metadata.names import encode_name

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.turn_watch import TurnWatch
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.children.management_process import ManagementProcess
    from amqp_server.connections.authentication import Authentication
    from amqp_server.connections.open_connections import OpenConnections
    from amqp_server.connections.slow_readers import SlowReaders
    from amqp_server.upkeep.alarms import Alarms
    from offsets import RedoJournal

_OTHER_KINDS = frozenset(SINGULARS) - {"queues", "exchanges", "bindings", *POLICY_KINDS}
"""Kinds of documents whose damage no virtual host keeps."""
DAMAGED_MAX = 1000
"""Damaged queues, exchanges and bindings that a status lists; `recovery.json` has more."""


@dataclass(frozen=True, slots=True)
class StatusSources:
    """Parts of the server on which a status reports.

    Attributes:
        address: Host and port on which the server listens.
        started_seconds: Time of the start on the clock `time.monotonic`.
        broker: Broker whose objects are counted.
        open_connections: Connections of clients.
        alarms: Alarms, with the last measurement.
        journal: Redo journal of transactions.
        watch: Watch that counts stalls of the event loop.
        slow_readers: Counts the clients that were cut off because they did not read.
        management: Process of the management server.
        authentication: Rules for logins, with the back ends.
    """

    address: tuple[str, int]
    started_seconds: float
    broker: Broker
    open_connections: OpenConnections
    alarms: Alarms
    journal: RedoJournal
    watch: TurnWatch
    slow_readers: SlowReaders
    management: ManagementProcess
    authentication: Authentication


async def status(sources: StatusSources) -> dict[str, object]:
    """Return the state of the server, with counts of what it holds."""
    vhosts = sources.broker.vhosts
    queues = [queue for vhost in vhosts.values() for queue in vhost.queues.values()]
    host, port = sources.address
    alarms = sources.alarms
    return {
        "product": "amqp-server",
        "version": __version__,
        "pid": os.getpid(),
        "uptime_seconds": round(time.monotonic() - sources.started_seconds, 3),
        "host": host,
        "port": port,
        "listeners": sources.management.listeners,
        "management": sources.management.status,
        "auth_backends": sources.authentication.chain.status,
        "alarms": alarms.low,
        "memory_bytes": alarms.last.memory_bytes if alarms.last else None,
        "memory_bytes_max": alarms.memory_bytes_max,
        "disk_free_bytes": alarms.last.disk_free_bytes if alarms.last else None,
        "disk_free_bytes_min": alarms.disk_free_bytes_min,
        "redo_file": sources.journal.last_number,
        "vhosts": len(vhosts),
        "connections": len(sources.open_connections),
        "slow_readers_closed": sources.slow_readers.closed_count,
        "channels": sum(connection.channel_count for connection in sources.open_connections),
        "queues": len(queues),
        "queues_read_only": sum(queue.is_failed for queue in queues),
        "messages_ready": sum(queue.ready_count for queue in queues),
        "stalls": _stalls(sources.watch),
        "damaged": damaged_objects(sources.broker),
    }


def _stalls(watch: TurnWatch) -> dict[str, object]:
    """Return what kept the event loop busy too long since the start."""
    return {
        "count": watch.stall_count,
        "longest_seconds": round(watch.longest_seconds, 6),
        "last": [
            {
                "at": datetime.fromtimestamp(stall.at_seconds, UTC).isoformat(),
                "seconds": round(stall.seconds, 6),
                "what": stall.what,
            }
            for stall in watch.stalls
        ],
        "histogram": [
            {"up_to_seconds": bound, "count": count}
            for bound, count in zip([*BOUNDS_SECONDS, None], watch.buckets, strict=True)
        ],
    }


def damaged_objects(broker: Broker) -> list[dict[str, str]]:
    """Return what the start could not recover; names are encoded as in file names."""
    vhosts = broker.vhosts
    found = [
        {"vhost": vhost.name, "kind": kind, "encoded_name": name, "reason": reason}
        for _, vhost in sorted(vhosts.items())
        for kind, names in (
            ("queue", vhost.damaged.queues),
            ("exchange", vhost.damaged.exchanges),
            ("binding", vhost.damaged.damaged_bindings.reasons()),
            *_damaged_policies(vhost),
        )
        for name, reason in sorted(names.items())
    ]
    names = {encode_name(name): name for name in vhosts}
    found += [
        {
            "vhost": names.get(each.encoded_vhost, ""),
            "kind": SINGULARS[each.kind],
            "encoded_name": each.encoded_name,
            "reason": f"{each.reason}: {each.effect}",
        }
        for each in broker.damaged_documents.of_kinds(_OTHER_KINDS)
    ]
    return found[:DAMAGED_MAX]


def _damaged_policies(vhost: VirtualHost) -> list[tuple[str, dict[str, str]]]:
    return [
        (kind.value, {name: unknown.consequence(vhost.name)})
        for kind, name, unknown in vhost.policies.damaged
    ]


def status_commands(sources: StatusSources) -> tuple[Command, ...]:
    """Return the command `status` of a server."""
    return (Command("status", partial(status, sources)),)
