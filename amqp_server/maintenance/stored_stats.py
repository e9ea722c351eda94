"""Statistics of queues from the files, for a server that does not run; scans no segment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from amqp_server.admin.views.values import text_json
from appendlog import FileSystem, LogError
from appendlog.log_statistics import stored_statistics
from appendlog.recovery.own_segments import own_segments
from appendlog.segments.durable_end import read_durable_end
from offsets import decode_checkpoint, read_checkpoint
from offsets.checkpoint_reading import checkpoint_generations, checkpoint_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from amqp_server.maintenance.stored_queues import StoredQueue, StoredQueues
    from offsets import QueueCheckpoint


def stored_stats(stored: StoredQueues, queues: Sequence[StoredQueue]) -> Iterator[dict[str, Any]]:
    """Return the statistics of each queue, with the names that the running server uses.

    A queue whose files cannot be read has the state `unreadable` and the reason in `failed`. It
    does not hide other queues.

    Raises:
        OffsetsError: The checkpoint cannot be read.
    """
    found = read_checkpoint(stored.storage_path / "offsets", FileSystem())
    age_seconds = _age_seconds(stored.storage_path / "offsets")
    for queue in queues:
        entry = found.entries.get(queue.incarnation.bytes)
        try:
            yield _stats(queue, None if entry is None else decode_checkpoint(entry), age_seconds)
        except (LogError, OSError) as error:
            yield {**_identity(queue), "state": "unreadable", "failed": str(error)}


def _identity(queue: StoredQueue) -> dict[str, Any]:
    return {
        **text_json("vhost", queue.vhost),
        **text_json("name", queue.name),
        "type": queue.definition.settings.type.value,
        "is_durable": True,
        "incarnation": str(queue.incarnation),
        **queue.definition.policy.as_json(),
    }


def _stats(
    queue: StoredQueue, checkpoint: QueueCheckpoint | None, checkpoint_age_seconds: float | None
) -> dict[str, Any]:
    filesystem = FileSystem()
    names = own_segments(queue.directory, queue.identity, filesystem).names
    end = read_durable_end(filesystem, queue.directory, queue.incarnation)
    floor = checkpoint.ack_floor if checkpoint else 0
    above = sum(stop - start for start, stop in checkpoint.acked_ranges) if checkpoint else 0
    start = names[0].base_offset if names else 0
    found = stored_statistics(queue.directory, queue.identity, filesystem)
    return {
        **_identity(queue),
        "state": "stopped",
        "ready": end.recovery_point - max(floor, start) - above if end else None,
        "settled_above_floor": above,
        "checkpointed_floor": floor,
        "log_start_offset": start,
        "recovery_point": end.recovery_point if end else None,
        "checkpoint_age_seconds": checkpoint_age_seconds,
        **dict.fromkeys(("appended", "delivered", "redelivered", "acked", "dropped")),
        **found.as_json(),
        "damaged_chunks": None,
    }


def _age_seconds(directory: Path) -> float | None:
    """Return the age in seconds of the newest checkpoint; None if there is none."""
    generations = checkpoint_generations(directory, FileSystem())
    if not generations:
        return None
    written = checkpoint_path(directory, max(generations)).stat().st_mtime
    return round(max(time.time() - written, 0.0), 3)
