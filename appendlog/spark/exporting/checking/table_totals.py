"""Computes the totals of a queue in a table from its state, history and list of files."""

from collections.abc import Sequence

from appendlog.spark.exporting.committing.manifest import Total
from appendlog.spark.exporting.tables.table_contents import FileInTable, QueueState
from appendlog.spark.planning.ranges import Range, join_ranges, offsets_in, subtract_ranges


def covered_by(state: QueueState) -> tuple[Range, ...]:
    """Return the offsets that are in the table or accounted for.

    If the history lacks commits, these are all offsets below the end: a table only goes forward.
    """
    noted = join_ranges(each for note in state.notes for each in note.ranges)
    if state.is_whole or state.end is None:
        return tuple(noted)
    return tuple(join_ranges([(0, state.end)]))


def total_of(state: QueueState, files: Sequence[FileInTable]) -> Total:
    """Return the sum of all exports of a queue.

    Args:
        state: State of the queue.
        files: Files of the table, of all queues.
    """
    covered = covered_by(state)
    own = [file for file in files if file.queue == (state.vhost, state.queue)]
    shared = [file for file in files if file.queue is None]
    noted = sum(note.rows for note in state.notes)
    rows = noted if shared and state.is_whole else sum(file.rows for file in own)
    corrupt = offsets_in(join_ranges(each for note in state.notes for each in note.corrupt))
    without_row = max(offsets_in(covered) - rows, corrupt)
    include = state.notes[-1].include if state.notes else None
    gaps = offsets_in(_gaps(state)) if include in ("acked", "unacked") else without_row - corrupt
    missing = min(gaps, without_row - corrupt)
    return Total(
        covered=covered,
        exports=len(state.notes),
        files=len(own) + len(shared),
        rows=rows,
        bytes=sum(file.size_bytes for file in (*own, *shared)),
        missing=missing,
        corrupt=corrupt,
        excluded=without_row - corrupt - missing,
        last_export=state.notes[-1].created if state.notes else None,
        include=include,
    )


def known_gaps(state: QueueState) -> list[Range]:
    """Return offsets without a row, as the history has them: the first ones of each commit."""
    damaged = (each for note in state.notes for each in note.corrupt)
    return join_ranges((*_gaps(state), *damaged))


def _gaps(state: QueueState) -> list[Range]:
    gaps = join_ranges(each for note in state.notes for each in note.gaps)
    damaged = join_ranges(each for note in state.notes for each in note.corrupt)
    return subtract_ranges(gaps, damaged)
