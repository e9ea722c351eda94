"""Compares an output with the part of the log that still exists.

Retention or compaction may have removed exported messages from the log. The output must have every
message that the log still has, byte for byte.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.errors import CorruptRecordError
from appendlog.reader import LogReader
from appendlog.spark.decoding.log_batches import log_batches
from appendlog.spark.exporting.checking.faults import Fault
from appendlog.spark.exporting.checking.file_check import lines_of
from appendlog.spark.exporting.checking.verify import Proof
from appendlog.spark.exporting.committing.manifest import ListedFile
from appendlog.spark.exporting.committing.manifests import siblings_of
from appendlog.spark.exporting.files.offset_order import in_offset_order
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range, join_ranges, offsets_in, subtract_ranges
from appendlog.spark.schema.columns import ROWS
from appendlog.split_reader import SplitReader

_COLUMNS: Final = ["offset", "value"]
_SPLIT_BYTES: Final = 64 << 20
_BATCH_ROWS: Final = 8192

_Sums = dict[int, int]
"""CRC-32 of bodies, by offset."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison.

    Attributes:
        log_start: Lowest offset of the log.
        durable_end: End of the offsets that are on the disk, exclusive.
        rows: Number of rows that both have and that were compared.
        faults: Differences.
        text: Summary, one line.
    """

    log_start: int
    durable_end: int
    rows: int
    faults: tuple[Fault, ...]
    text: str


def compare_with_log(store: OutputStore, proof: Proof, log: QueueLog) -> Comparison:
    """Compare an output with a log; row by row if the proof is deep.

    Args:
        store: Store of the output.
        proof: Proof of the queue; skips files in which it has found faults.
        log: Log of the queue that has this name now.

    Raises:
        OSError: The log or a file cannot be read.
        LogError: The files are no log of this format.
    """
    if proof.incarnation not in ("", str(log.incarnation)):
        text = "the queue was deleted and declared again: its log is not that of the output"
        return Comparison(0, 0, 0, (), text)
    reader = open_reader(log)
    try:
        return _compare(store, proof, log, reader)
    finally:
        reader.close()


def _compare(store: OutputStore, proof: Proof, log: QueueLog, reader: LogReader) -> Comparison:
    start, end = reader.log_start_offset, reader.log_end_offset
    faults: list[Fault] = []
    covered = proof.total.covered
    if covered and covered[-1][1] > end:
        text = f"the output ends at {covered[-1][1]}, after the durable end {end} of the log"
        faults.append(Fault("corrupt", text, start=end, end=covered[-1][1]))
    behind = offsets_in(subtract_ranges([(start, max(start, end))], covered))
    text = f"the log has [{start}, {end}), {behind} offsets of it are not exported yet"
    if not proof.is_deep:
        return Comparison(start, end, 0, tuple(faults), text)
    bad = {fault.path for fault in proof.faults}
    rows = 0
    for siblings in siblings_of(proof.files):
        if siblings[0].end > start and not bad.intersection(file.path for file in siblings):
            try:
                rows += _compare_siblings(store, siblings, log, reader, faults)
            except CorruptRecordError as error:
                where = siblings[0].path
                text += f"; {where} cannot be compared, the log is damaged: {error}"
    text += f"; {rows} rows are in both, and the same"
    if faults:
        text += f" but for {len(faults)} faults"
    return Comparison(start, end, rows, tuple(faults), text)


def _compare_siblings(
    store: OutputStore,
    siblings: Sequence[ListedFile],
    log: QueueLog,
    reader: LogReader,
    faults: list[Fault],
) -> int:
    """Compare the files of one range with the log; return the number of rows that both have."""
    first = siblings[0]
    at, compared = first.start, 0
    # The log has messages that were not asked for. It cannot have those of a lost chunk.
    has_all = not any(file.excluded for file in siblings)
    lost: list[Range] = []
    differs: int | None = None
    files = [_file_rows(store, listed, len(siblings)) for listed in siblings]
    splits = SplitReader(log.directory, log.filesystem)
    try:
        for rows in chain(in_offset_order(files), [None]):
            here = {} if rows is None else _sums(rows)
            behind = max(here) + 1 if here else first.end
            there = _log_sums(log, reader, splits, at, behind)
            at = behind
            both = here.keys() & there.keys()
            compared += len(both)
            if differs is None:
                differs = min((each for each in both if here[each] != there[each]), default=None)
            if has_all:
                only_there = ((offset, offset + 1) for offset in there.keys() - here.keys())
                lost = join_ranges((*lost, *only_there))
    finally:
        splits.close()
    if differs is not None:
        text = f"{first.path}: the body of offset {differs} is not that of the log"
        faults.append(Fault("corrupt", text, first.path, differs, differs + 1))
    faults += (
        Fault("loss", f"{first.path}: the log has [{low}, {high})", first.path, low, high)
        for low, high in lost
    )
    return compared


def _file_rows(store: OutputStore, listed: ListedFile, share: int) -> Iterator[pa.Table]:
    """Yield offsets and bodies of a file, of which `share` are read at once."""
    rows_max = max(_BATCH_ROWS // share, 1)
    with store.open_read(listed.path) as file:
        if listed.path.endswith(".parquet"):
            for batch in pq.ParquetFile(file).iter_batches(rows_max, columns=_COLUMNS):
                yield pa.Table.from_batches([batch])
            return
        with lines_of(file, listed) as lines:
            while some := list(islice(lines, rows_max)):
                rows = [json.loads(line) for line in some]
                columns = [[row["offset"] for row in rows], [_body(row) for row in rows]]
                yield pa.table(columns, names=_COLUMNS)


def _body(row: Mapping[str, Any]) -> bytes:
    text = row["value"]
    return base64.b64decode(row["value_base64"]) if text is None else text.encode()


def _log_sums(log: QueueLog, reader: LogReader, splits: SplitReader, start: int, end: int) -> _Sums:
    sums: _Sums = {}
    start, end = max(start, reader.log_start_offset), min(end, reader.log_end_offset)
    if start < end:
        for split in reader.plan_splits(start, end, _SPLIT_BYTES):
            for batch in log_batches(splits, log, split, ROWS.only(_COLUMNS)):
                sums |= _sums(batch.rows)
    return sums


def _sums(rows: pa.Table | pa.RecordBatch) -> _Sums:
    offsets, bodies = (rows.column(name).to_pylist() for name in _COLUMNS)
    return dict(zip(offsets, map(zlib.crc32, bodies), strict=True))
