"""Checks files of an output against their manifest."""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.exporting.checking.faults import Fault, FaultKind
from appendlog.spark.exporting.checking.offset_set import OffsetSet
from appendlog.spark.exporting.committing.manifest import ListedFile
from appendlog.spark.exporting.stores.store import COPY_BYTES, OutputStore

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH_ROWS: Final = 65_536
_PACKINGS: Final = {"zst": "zstd", "gz": "gzip"}


class FileFaultError(Exception):
    """A file differs from its manifest; the message says how, without the path."""


def check_file(store: OutputStore, listed: ListedFile, *, is_deep: bool) -> Fault | None:
    """Return what is wrong with a file; None if nothing is.

    Args:
        store: Store of the output.
        listed: File as its manifest lists it.
        is_deep: Whether to read every offset too.

    Raises:
        OSError: The store fails.
    """
    kind: FaultKind = "corrupt"
    try:
        with store.open_read(listed.path) as file:
            _check_bytes(file, listed)
            if listed.path.endswith(".parquet"):
                _check_footer(pq.read_metadata(file), listed)
            if is_deep:
                check_offsets(offsets_of(file, listed), listed)
    except FileNotFoundError:
        kind, why = "loss", "the file is gone"
    except (FileFaultError, pa.ArrowException, ValueError) as error:
        why = str(error)
    else:
        return None
    text = f"{listed.path}: {why}: offsets [{listed.start}, {listed.end})"
    return Fault(kind, text, listed.path, listed.start, listed.end)


def check_siblings(
    store: OutputStore, siblings: Sequence[ListedFile], *, is_deep: bool
) -> list[Fault]:
    """Return what is wrong with the files of one range.

    Args:
        store: Store of the output.
        siblings: Files as their manifests list them, at least one.
        is_deep: Whether to read every offset too; then no offset is in two of them.

    Raises:
        OSError: The store fails.
    """
    found = [fault for each in siblings if (fault := check_file(store, each, is_deep=is_deep))]
    if found or not is_deep or len(siblings) == 1:
        return found
    seen = OffsetSet()
    for listed in siblings:
        with store.open_read(listed.path) as file:
            for offsets in offsets_of(file, listed):
                seen.add(offsets)
        if seen.first_double is not None:
            at = seen.first_double
            text = f"{listed.path}: offset {at} is in another file of its range, too"
            return [Fault("corrupt", text, listed.path, listed.start, listed.end)]
    return []


def check_offsets(batches: Iterator[npt.NDArray[np.int64]], listed: ListedFile) -> None:
    """Check that offsets are as many as the manifest says, rising, and of the file's range.

    So no offset is there twice, and all are there if the manifest counts none as missing.

    Raises:
        FileFaultError: They are not.
    """
    last = listed.start - 1
    rows = 0
    for offsets in batches:
        rising = np.diff(offsets, prepend=last) > 0
        if not rising.all():
            raise FileFaultError(f"offset {offsets[~rising][0]} follows a row that is not below it")
        if len(offsets):
            last, rows = int(offsets[-1]), rows + len(offsets)
    if last >= listed.end:
        raise FileFaultError(f"offset {last} is not of its range")
    if rows != listed.rows:
        raise FileFaultError(f"{rows} rows, its manifest says {listed.rows}")


def offsets_of(file: BinaryIO, listed: ListedFile) -> Iterator[npt.NDArray[np.int64]]:
    """Read the offsets of all rows, in the order of the file.

    Raises:
        ArrowException: The file cannot be read.
    """
    file.seek(0)
    if listed.path.endswith(".parquet"):
        for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS, columns=["offset"]):
            yield batch.column(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return
    with lines_of(file, listed) as lines:
        yield np.array([json.loads(line)["offset"] for line in lines], dtype=np.int64)


def lines_of(file: BinaryIO, listed: ListedFile) -> io.BufferedReader:
    """Return the lines of a file of JSON lines, decompressed."""
    packing = _PACKINGS.get(listed.path.rpartition(".")[2])
    # Arrow's stream has no lines, and it would close the file, which is the caller's.
    return io.BufferedReader(pa.input_stream(pa.PythonFile(file, "r"), compression=packing))


def _check_bytes(file: BinaryIO, listed: ListedFile) -> None:
    digest = hashlib.sha256()
    size = 0
    while data := file.read(COPY_BYTES):
        digest.update(data)
        size += len(data)
    if size != listed.bytes:
        raise FileFaultError(f"{size} bytes, its manifest says {listed.bytes}")
    if listed.sha256 not in (None, digest.hexdigest()):
        raise FileFaultError("its bytes are not those that were written (sha256)")
    file.seek(0)


def _check_footer(footer: Any, listed: ListedFile) -> None:  # noqa: ANN401 - pyarrow has no type
    if footer.num_rows != listed.rows:
        raise FileFaultError(f"{footer.num_rows} rows, its manifest says {listed.rows}")
    last = listed.start - 1
    for at in range(footer.num_row_groups):
        columns = {
            (column := footer.row_group(at).column(number)).path_in_schema: column.statistics
            for number in range(footer.num_columns)
        }
        offsets = columns.get("offset")
        if offsets is not None and offsets.has_min_max:
            if not last < offsets.min <= offsets.max < listed.end:
                raise FileFaultError(f"row group {at} has offsets {offsets.min} to {offsets.max}")
            last = offsets.max
        _check_times(columns.get("timestamp"), listed, at)


def _check_times(
    found: Any,  # noqa: ANN401 - pyarrow has no type
    listed: ListedFile,
    row_group: int,
) -> None:
    known = listed.min_ts is not None and listed.max_ts is not None
    if not known or found is None or not found.has_min_max:
        return
    low, high = (_microseconds(value) for value in (found.min, found.max))
    assert listed.min_ts is not None
    assert listed.max_ts is not None
    if low < listed.min_ts // 1000 or high > listed.max_ts // 1000:
        raise FileFaultError(f"row group {row_group} has times {found.min} to {found.max}")


def _microseconds(value: datetime) -> int:
    return (value - _EPOCH) // timedelta(microseconds=1)
