"""The command `status`: returns what is running, since when, and how much it holds."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from amqp_server import __version__
from amqp_server.broker.turn_watch import BOUNDS_SECONDS
from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from amqp_server.broker.turn_watch import TurnWatch
    from amqp_server.server import Server


DAMAGED_MAX = 1000
"""Damaged queues, exchanges and bindings that a status lists; `recovery.json` has more."""


async def status(server: Server) -> dict[str, object]:
    """Return the state of the server, with counts of what it holds."""
    queues = [queue for vhost in server.broker.vhosts.values() for queue in vhost.queues.values()]
    host, port = server.address
    alarms = server.alarms
    return {
        "product": "amqp-server",
        "version": __version__,
        "pid": os.getpid(),
        "uptime_seconds": round(time.monotonic() - server.started_seconds, 3),
        "host": host,
        "port": port,
        "alarms": alarms.low,
        "memory_bytes": alarms.last.memory_bytes if alarms.last else None,
        "memory_bytes_max": alarms.memory_bytes_max,
        "disk_free_bytes": alarms.last.disk_free_bytes if alarms.last else None,
        "disk_free_bytes_min": alarms.disk_free_bytes_min,
        "redo_file": server.journal.last_number,
        "vhosts": len(server.broker.vhosts),
        "connections": len(server.connections),
        "channels": sum(connection.channel_count for connection in server.connections),
        "queues": len(queues),
        "queues_read_only": sum(queue.store.is_failed for queue in queues),
        "messages_ready": sum(queue.ready_count for queue in queues),
        "stalls": _stalls(server.watch),
        "damaged": _damaged(server),
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


def _damaged(server: Server) -> list[dict[str, str]]:
    """Return what the start could not recover; names are encoded as in file names."""
    return [
        {"vhost": vhost.name, "kind": kind, "encoded_name": name, "reason": reason}
        for _, vhost in sorted(server.broker.vhosts.items())
        for kind, names in (
            ("queue", vhost.damaged.queues),
            ("exchange", vhost.damaged.exchanges),
            ("binding", vhost.damaged.damaged_bindings.reasons()),
        )
        for name, reason in sorted(names.items())
    ][:DAMAGED_MAX]


STATUS = Command("status", status)
