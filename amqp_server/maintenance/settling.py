"""Settles offsets in the checkpoint of a data directory on which no server runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from offsets import QueueCheckpoint, Settlement
from offsets.checkpoint import CheckpointStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from appendlog import FileSystem


def settle_in_checkpoint(
    storage_path: Path,
    filesystem: FileSystem,
    ranges: Mapping[UUID, Sequence[tuple[int, int]]],
    forgotten: Collection[UUID] = (),
) -> None:
    """Write a checkpoint round in which ranges of offsets are settled.

    If the last stop was clean, it stays so.

    Args:
        storage_path: A data directory on which no server runs.
        filesystem: All file operations.
        ranges: Ranges of offsets by incarnation; the log must never contain an offset in them.
        forgotten: Incarnations to remove from the checkpoint; none of them may be in `ranges`.

    Raises:
        OffsetsError: The checkpoint cannot be read or written.
    """
    store, states, was_clean = CheckpointStore.open(storage_path / "offsets", filesystem)
    settled: list[QueueCheckpoint] = []
    for incarnation, gone in ranges.items():
        state = states.get(incarnation, QueueCheckpoint(incarnation, 0))
        settlement = Settlement(state.ack_floor, state.acked_ranges)
        for start, end in gone:
            settlement.settle(start, end)
        floor = settlement.ack_floor
        acked_ranges = settlement.ranges()
        settled.append(replace(state, ack_floor=floor, acked_ranges=acked_ranges))
    try:
        store.write_round(settled, list(forgotten), clean=was_clean)
    finally:
        store.close()
