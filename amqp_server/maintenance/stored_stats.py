"""What the files tell of each queue, for a server that does not run: no segment is scanned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.maintenance.values import text_json
from appendlog import FileSystem, LogError
from appendlog.recovery.generations import newest_generations
from appendlog.segments.durable_end import read_durable_end
from offsets import decode_checkpoint, read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amqp_server.maintenance.stored_queues import StoredQueue, StoredQueues
    from offsets import QueueCheckpoint


def stored_stats(stored: StoredQueues, queues: Sequence[StoredQueue]) -> Iterator[dict[str, Any]]:
    """Return what is known of each queue, with the names that the running server uses.

    A queue whose files cannot be read has the state `unreadable`, and `failed` says why: it hides
    no other queue.

    Raises:
        OffsetsError: The checkpoint cannot be read.
    """
    found = read_checkpoint(stored.storage_path / "offsets", FileSystem())
    for queue in queues:
        entry = found.entries.get(queue.incarnation.bytes)
        try:
            yield _stats(queue, None if entry is None else decode_checkpoint(entry))
        except (LogError, OSError) as error:
            yield {**_identity(queue), "state": "unreadable", "failed": str(error)}


def _identity(queue: StoredQueue) -> dict[str, Any]:
    return {
        **text_json("vhost", queue.vhost),
        **text_json("name", queue.name),
        "type": queue.definition.settings.type.value,
        "is_durable": True,
        "incarnation": str(queue.incarnation),
    }


def _stats(queue: StoredQueue, checkpoint: QueueCheckpoint | None) -> dict[str, Any]:
    filesystem = FileSystem()
    names = newest_generations(queue.directory, filesystem)
    end = read_durable_end(filesystem, queue.directory, queue.incarnation)
    floor = checkpoint.ack_floor if checkpoint else 0
    above = sum(stop - start for start, stop in checkpoint.acked_ranges) if checkpoint else 0
    start = names[0].base_offset if names else 0
    return {
        **_identity(queue),
        "state": "stopped",
        "ready": end.recovery_point - max(floor, start) - above if end else None,
        "settled_above_floor": above,
        "checkpointed_floor": floor,
        "log_start_offset": start,
        "recovery_point": end.recovery_point if end else None,
        "segments": len(names),
        "disk_bytes": sum((queue.directory / name.file_name).stat().st_size for name in names),
    }
