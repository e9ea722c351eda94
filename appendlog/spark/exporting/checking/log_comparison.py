"""Compares an output with the part of the log that still exists.

Retention or compaction may have removed exported messages from the log. The output must have every
message that the log still has, byte for byte.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.parquet as pq

from appendlog.errors import CorruptRecordError
from appendlog.reader import LogReader
from appendlog.spark.decoding.log_batches import log_batches
from appendlog.spark.exporting.checking.faults import Fault
from appendlog.spark.exporting.checking.file_check import lines_of
from appendlog.spark.exporting.checking.verify import Proof
from appendlog.spark.exporting.committing.manifest import ListedFile
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
    for listed in proof.files:
        if listed.path not in bad and listed.end > start:
            try:
                rows += _compare_file(store, listed, log, reader, faults)
            except CorruptRecordError as error:
                text += f"; {listed.path} cannot be compared, the log is damaged: {error}"
    text += f"; {rows} rows are in both, and the same"
    if faults:
        text += f" but for {len(faults)} faults"
    return Comparison(start, end, rows, tuple(faults), text)


def _compare_file(
    store: OutputStore, listed: ListedFile, log: QueueLog, reader: LogReader, faults: list[Fault]
) -> int:
    here = _file_sums(store, listed)
    there = _log_sums(log, reader, listed)
    both = here.keys() & there.keys()
    for offset in sorted(offset for offset in both if here[offset] != there[offset])[:1]:
        text = f"{listed.path}: the body of offset {offset} is not that of the log"
        faults.append(Fault("corrupt", text, listed.path, offset, offset + 1))
    # The log has messages that were not asked for. It cannot have those of a lost chunk.
    lost = [] if listed.excluded else _runs(sorted(there.keys() - here.keys()))
    faults += (
        Fault("loss", f"{listed.path}: the log has [{low}, {high})", listed.path, low, high)
        for low, high in lost
    )
    return len(both)


def _runs(offsets: list[int]) -> list[Range]:
    return join_ranges((offset, offset + 1) for offset in offsets)


def _file_sums(store: OutputStore, listed: ListedFile) -> _Sums:
    sums: _Sums = {}
    with store.open_read(listed.path) as file:
        if not listed.path.endswith(".parquet"):
            with lines_of(file, listed) as lines:
                for line in lines:
                    row = json.loads(line)
                    _add(sums, [row["offset"]], [_body(row)])
            return sums
        for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS, columns=_COLUMNS):
            _add(sums, batch.column("offset").to_pylist(), batch.column("value").to_pylist())
    return sums


def _body(row: Mapping[str, Any]) -> bytes:
    text = row["value"]
    return base64.b64decode(row["value_base64"]) if text is None else text.encode()


def _log_sums(log: QueueLog, reader: LogReader, listed: ListedFile) -> _Sums:
    sums: _Sums = {}
    start = max(listed.start, reader.log_start_offset)
    end = min(listed.end, reader.log_end_offset)
    if start >= end:
        return sums
    splits = SplitReader(log.directory, log.filesystem)
    try:
        for split in reader.plan_splits(start, end, _SPLIT_BYTES):
            for batch in log_batches(splits, log, split, ROWS.only(_COLUMNS)):
                rows = batch.rows
                _add(sums, rows.column("offset").to_pylist(), rows.column("value").to_pylist())
    finally:
        splits.close()
    return sums


def _add(sums: _Sums, offsets: list[int], bodies: list[bytes]) -> None:
    sums.update(zip(offsets, map(zlib.crc32, bodies), strict=True))
