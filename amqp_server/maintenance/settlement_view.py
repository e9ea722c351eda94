"""Shows checkpoints and the redo journal as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from amqp_server.admin.views.values import text_json
from appendlog import FileSystem
from offsets import decode_checkpoint, read_checkpoint, read_redo_journal
from offsets.checkpoint_round import decode_round, find_round

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from amqp_server.maintenance.stored_queues import StoredQueue
    from offsets import GroupCheckpoint, QueueCheckpoint

RANGES_MAX: Final = 1000
CHECKPOINT_BYTES_MAX: Final = 1 << 32


def checkpoint_rows(
    offsets_directory: Path, names: dict[UUID, StoredQueue]
) -> Iterator[dict[str, Any]]:
    """Return the content of all checkpoint files: a row of totals, one a queue, one a group.

    Args:
        offsets_directory: The `offsets` directory.
        names: The existing queues, by incarnation.

    Raises:
        OffsetsError: The files cannot be read.
    """
    found = read_checkpoint(offsets_directory, FileSystem())
    yield {
        "generation": found.generation,
        "rounds": found.rounds,
        "is_clean_stop": found.was_clean,
        "torn_bytes": found.torn_bytes,
        "sources": [path.name for path in found.sources],
        "damaged_files": [path.name for path in found.damaged_files],
        "queues": len(found.entries),
        "groups": len(found.groups),
    }
    for entry in found.entries.values():
        checkpoint = decode_checkpoint(entry)
        yield _checkpoint_row(checkpoint, names.get(checkpoint.incarnation))
    for group in found.group_checkpoints().values():
        yield _group_row(group, names.get(group.incarnation))


def _names(queue: StoredQueue | None) -> dict[str, Any]:
    if queue is None:
        return {}
    return {**text_json("vhost", queue.vhost), **text_json("queue", queue.name)}


def _checkpoint_row(checkpoint: QueueCheckpoint, queue: StoredQueue | None) -> dict[str, Any]:
    ranges = checkpoint.acked_ranges
    runs = sorted(checkpoint.redeliveries)
    return {
        **_names(queue),
        "incarnation": str(checkpoint.incarnation),
        "is_known": queue is not None,
        "ack_floor": checkpoint.ack_floor,
        "recovery_point": checkpoint.recovery_point,
        "delivered_watermark": checkpoint.delivered_watermark,
        "range_count": len(ranges),
        "acked_ranges": [list(each) for each in ranges[:RANGES_MAX]],
        "redelivery_run_count": len(runs),
        "redeliveries": [list(each) for each in runs[:RANGES_MAX]],
    }


def _group_row(group: GroupCheckpoint, queue: StoredQueue | None) -> dict[str, Any]:
    ranges = group.acked_ranges
    runs = sorted(group.redeliveries)
    return {
        **_names(queue),
        "group": group.name,
        "incarnation": str(group.incarnation),
        "is_known": queue is not None,
        "committed": group.committed,
        "start": group.start,
        "commit_floor": group.commit_floor,
        "recovery_point": group.recovery_point,
        "delivered_watermark": group.delivered_watermark,
        "range_count": len(ranges),
        "acked_ranges": [list(each) for each in ranges[:RANGES_MAX]],
        "redelivery_run_count": len(runs),
        "redeliveries": [list(each) for each in runs[:RANGES_MAX]],
        "dropped_total": group.dropped_total,
        "dropped_since_last_poll": group.dropped_since_last_poll,
        "redelivered": group.redelivered,
        "updated_at_ns": group.updated_at_ns,
    }


def round_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the rounds of one checkpoint file; bytes without a valid round are rows with `fault`.

    Raises:
        OSError: The file cannot be read.
    """
    data = FileSystem().read_file(path, CHECKPOINT_BYTES_MAX)
    position = 0
    while position < len(data):
        found = decode_round(data, position)
        if found is None:
            begin = find_round(data, position + 1)
            end = len(data) if begin < 0 else begin
            yield {"position": position, "fault": "no valid round", "bytes": end - position}
            position = end
            continue
        yield {
            "position": position,
            "bytes": found.end - position,
            "generation": found.generation,
            "number": found.number,
            "is_base": found.is_base,
            "is_clean_stop": found.is_clean,
            "queues": len(found.entries),
            "removed": len(found.removed),
            "groups": len(found.groups),
            "removed_groups": len(found.removed_groups),
        }
        position = found.end


def redo_rows(directory: Path) -> Iterator[dict[str, Any]]:
    """Return the redo journal: a row of its files, then one for each transaction.

    Raises:
        OffsetsError: The journal cannot be read.
    """
    found = read_redo_journal(directory, FileSystem())
    yield {
        "files": [path.name for path in found.files],
        "transactions": len(found.transactions),
        "torn_bytes": found.torn_bytes,
        "damaged_files": [path.name for path in found.damaged_files],
    }
    for transaction in found.transactions:
        yield {
            "transaction_id": transaction.transaction_id.hex(),
            "messages": len(transaction.messages),
            "message_bytes": sum(map(len, transaction.messages)),
            "targets": [
                {
                    "incarnation": str(target.incarnation),
                    "log_end_offset": target.log_end_offset,
                    "messages": len(transaction.messages_of(target)),
                }
                for target in transaction.targets
            ],
            "settled": [
                {
                    "incarnation": str(settled.incarnation),
                    "ranges": [list(each) for each in settled.ranges[:RANGES_MAX]],
                }
                for settled in transaction.settled
            ],
        }
