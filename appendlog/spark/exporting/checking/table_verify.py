"""Proves that a table is complete: counts its rows, and looks for its files.

Other programs may have compacted, clustered or extended the table. So this reads the table as its
users do, and compares the rows with the notes of exports in the table's history.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.checking.faults import Fault
from appendlog.spark.exporting.checking.offset_set import OffsetSet
from appendlog.spark.exporting.checking.table_totals import covered_by, known_gaps, total_of
from appendlog.spark.exporting.checking.verify import OnChecked, Proof
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.table_contents import (
    CommitNote,
    FileInTable,
    QueueState,
    TableContents,
)
from appendlog.spark.planning.ranges import Range, subtract_ranges

LOST_LISTED: Final = 20
"""Most ranges of lost offsets that are listed for a commit."""
_LOOKED_AT: Final = 10_000

_Queue = tuple[str, str]


def verify_table(
    store: OutputStore,
    table: TableContents,
    states: Sequence[QueueState],
    *,
    is_deep: bool = False,
    on_checked: OnChecked = lambda _, __: None,
) -> list[Proof]:
    """Check the queues of a table.

    Args:
        store: Store of the table.
        table: Version of the table to check.
        states: States of the queues to check.
        is_deep: Whether to read all columns, instead of those that identify messages.
        on_checked: Called now and then, with numbers of rows in place of bytes.

    Raises:
        OutputError: The table's own log cannot be read.
        OSError: The store fails.
    """
    files = table.files()
    of_files = list(_file_faults(store, files))
    found: dict[_Queue, OffsetSet] = {(state.vhost, state.queue): OffsetSet() for state in states}
    unread: Fault | None = None
    # No read of the table gets past a file that is gone; the notes say what is lost.
    if not of_files:
        try:
            _read(table, found, sum(file.rows for file in files), on_checked, is_deep=is_deep)
        except OutputError as error:
            unread = Fault("corrupt", f"its rows cannot be read: {error}")
    proofs = []
    for state in states:
        key = (state.vhost, state.queue)
        faults = [fault for queue, fault in of_files if queue in (None, key)]
        if unread:
            faults.append(unread)
        if not of_files and not unread:
            faults += _offset_faults(state, found[key])
        proofs.append(_proof(state, files, tuple(faults), is_deep=is_deep))
    return proofs


def _file_faults(
    store: OutputStore, files: Sequence[FileInTable]
) -> Iterator[tuple[_Queue | None, Fault]]:
    there = {file.path: file.size_bytes for file in store.list("")}
    for file in files:
        if file.path is None:
            continue
        start, end = file.offsets or (None, None)
        where = f": offsets [{start}, {end})" if file.offsets else ""
        size = there.get(file.path)
        if size is None:
            text = f"{file.name}: the file is gone{where}"
            yield file.queue, Fault("loss", text, file.path, start, end)
        elif size != file.size_bytes:
            text = f"{file.name}: {size} bytes, the table says {file.size_bytes}{where}"
            yield file.queue, Fault("corrupt", text, file.path, start, end)


def _read(
    table: TableContents,
    found: Mapping[_Queue, OffsetSet],
    total: int,
    on_checked: OnChecked,
    *,
    is_deep: bool,
) -> None:
    done = 0
    on_checked(done, total)
    for batch in table.rows(is_whole=is_deep):
        for key, offsets in _by_queue(batch):
            if key in found:
                found[key].add(offsets)
        done += batch.num_rows
        on_checked(min(done, total), total)


def _by_queue(batch: pa.RecordBatch) -> Iterator[tuple[_Queue, np.ndarray]]:
    names = [batch.column(name).cast(pa.string()) for name in ("vhost", "topic")]
    offsets = batch.column("offset")
    rows = pa.table([*names, offsets], names=["vhost", "topic", "offset"])
    rows = rows.filter(pc.greater_equal(rows.column("offset"), 0))
    for key in rows.group_by(["vhost", "topic"]).aggregate([]).to_pylist():
        vhost, queue = key["vhost"], key["topic"]
        if vhost is not None and queue is not None:
            is_its = pc.and_(
                pc.equal(rows.column("vhost"), vhost), pc.equal(rows.column("topic"), queue)
            )
            its = rows.column("offset").filter(is_its)
            yield (vhost, queue), its.to_numpy(zero_copy_only=False).astype(np.int64)


def _offset_faults(state: QueueState, found: OffsetSet) -> Iterator[Fault]:
    if found.first_double is not None:
        at = found.first_double
        text = f"offset {at} is there twice; {found.doubled} rows are too many"
        yield Fault("corrupt", text, start=at, end=at + 1)
    gaps = known_gaps(state)
    for note in state.notes:
        yield from _note_faults(note, found, gaps)
    noted_end = max((note.ranges[-1][1] for note in state.notes if note.ranges), default=0)
    if state.is_whole and state.end is not None and noted_end != state.end:
        text = f"the table says that it ends at {state.end}, its history says {noted_end}"
        yield Fault("corrupt", text)
    uncovered = found.count - sum(found.count_in(*each) for each in covered_by(state))
    if uncovered and (state.is_whole or state.end is not None):
        text = f"{uncovered} rows have offsets that no export has added, up to {found.last()}"
        yield Fault("corrupt", text)


def _note_faults(note: CommitNote, found: OffsetSet, gaps: Sequence[Range]) -> Iterator[Fault]:
    rows = sum(found.count_in(*each) for each in note.ranges)
    text = f"the export of {note.created} has added {note.rows} rows, {rows} are there"
    if rows > note.rows:
        yield Fault("corrupt", text, start=note.ranges[0][0], end=note.ranges[-1][1])
    if rows >= note.rows:
        return
    missing = (each for wanted in note.ranges for each in found.missing_in(*wanted))
    lost = subtract_ranges(list(islice(missing, _LOOKED_AT)), gaps)
    if note.include != "all" or not lost:
        # No note says which offsets were left out.
        yield Fault("loss", text, start=note.ranges[0][0], end=note.ranges[-1][1])
        return
    for start, end in lost[:LOST_LISTED]:
        yield Fault("loss", f"{text}: offsets [{start}, {end}) are gone", start=start, end=end)


def _proof(
    state: QueueState, files: Sequence[FileInTable], faults: tuple[Fault, ...], *, is_deep: bool
) -> Proof:
    total = total_of(state, files)
    hull = [(total.covered[0][0], total.covered[-1][1])] if total.covered else []
    return Proof(
        queue=state.queue,
        vhost=state.vhost,
        incarnation=state.incarnation or "",
        total=total,
        manifests=len(state.notes),
        files=(),
        holes=tuple(subtract_ranges(hull, total.covered)),
        faults=faults,
        is_deep=is_deep,
    )
