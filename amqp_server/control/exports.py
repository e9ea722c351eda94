"""The command `exports.list`: the exports' records in the data directory, and their readers.

An export runs in a process of its own and notes what it does (`appendlog.export_records`). The
server adds what it knows: how far each queue is ahead of the output.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.control.registry import Command
from amqp_server.control.requesting_user import entered_by_request, requesting_user
from appendlog.export_records import read_records
from appendlog.reclaim.leases import present_leases

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from appendlog.export_records import Record


async def list_exports(
    broker: Broker, access: AccessControl, storage_path: Path
) -> dict[str, object]:
    """Return the outputs of exports, and the readers that hold segments.

    Only what is in virtual hosts that the request may enter.

    Args:
        broker: Broker with the queues.
        access: Users and permissions.
        storage_path: Data directory.
    """
    records = await asyncio.to_thread(read_records, storage_path)
    leases = await asyncio.to_thread(present_leases, storage_path)
    entered = await entered_by_request(access, list(broker.vhosts))
    # Without a requesting user: of a virtual host that is gone, too.
    shows_all = not requesting_user.get()

    def is_shown(vhost: str) -> bool:
        return shows_all or vhost in entered

    exports = []
    # A run of many queues must not hold the event loop.
    time_slice = broker.turn.new_slice()
    for record in records:
        rows = []
        for each in record["queues"]:
            if is_shown(each["vhost"]):
                rows.append(_row(broker, each))
            await time_slice.yield_if_due()
        vhost = record["settings"].get("vhost")
        if rows or (isinstance(vhost, str) and is_shown(vhost)):
            exports.append({**record, "queues": rows})
    readers = [
        {
            "vhost": lease.vhost,
            "queue": lease.queue,
            "low_offset": lease.low_offset,
            "renewed_seconds_ago": round((time.monotonic_ns() - lease.renewed_ns) / 1e9, 1),
        }
        for lease in leases
        if is_shown(lease.vhost)
    ]
    return {"exports": exports, "readers": readers}


def _row(broker: Broker, noted: Record) -> dict[str, Any]:
    """Return what is known of one queue of an output."""
    host = broker.vhosts.get(noted["vhost"])
    queue = host.queues.get(noted["queue"]) if host is not None else None
    behind = log_end = None
    if queue is not None and str(queue.incarnation) == noted["incarnation"]:
        log_end = queue.store.log.log_end_offset
        behind = max(log_end - noted["end"], 0)
    return {
        **noted,
        "exists": queue is not None,
        "is_same": behind is not None,
        "log_end_offset": log_end,
        "behind": behind,
    }


def exports_commands(
    broker: Broker, access: AccessControl, storage_path: Path
) -> tuple[Command, ...]:
    """Return the command `exports.list` of a server with these parts."""
    return (Command("exports.list", partial(list_exports, broker, access, storage_path)),)
