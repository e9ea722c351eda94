"""Reads an output of files, Parquet or JSON lines, by its manifests."""

import base64
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.checking.output_queues import exported_queues
from appendlog.spark.exporting.committing.manifest import ListedFile, Manifest
from appendlog.spark.exporting.committing.manifests import Manifests, listed_files, siblings_of
from appendlog.spark.exporting.files.offset_order import in_offset_order
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.importing.exported import (
    MESSAGE_COLUMNS,
    MESSAGES,
    ExportedQueue,
    NoEnvelopeError,
    within,
)
from metadata.name_texts import escaped_text

READ_ROWS: Final = 8192
READ_BYTES: Final = 8 << 20


class ExportedFiles:
    """Rows of an output of files; see `Exported`.

    Args:
        store: Store of the output.
    """

    def __init__(self, store: OutputStore) -> None:
        self._store = store
        self._manifests: dict[str, list[Manifest]] | None = None

    def queues(self) -> Sequence[ExportedQueue]:
        """See `Exported.queues`."""
        found = []
        for manifests in self._read().values():
            last = manifests[-1]
            queue = ExportedQueue(
                escaped_text(last.vhost),
                escaped_text(last.queue),
                str(last.incarnation),
                tuple(last.total.covered),
            )
            found.append(queue)
        return sorted(found, key=lambda queue: (queue.vhost, queue.queue))

    def rows(self, queue: ExportedQueue, start: int, end: int) -> Iterator[pa.Table]:
        """See `Exported.rows`."""
        manifests = self._read()[queue.identity]
        made = {file.path: manifest for manifest in manifests for file in manifest.files}
        for siblings in siblings_of(listed_files(manifests)):
            if siblings[0].start < end and start < siblings[0].end:
                share = len(siblings)
                files = [self._file(file, made[file.path], share) for file in siblings]
                for table in in_offset_order(files):
                    wanted = within(table, start, end)
                    if wanted.num_rows:
                        yield wanted

    def _read(self) -> dict[str, list[Manifest]]:
        """Return the manifests of each incarnation of a queue, in their order."""
        if self._manifests is None:
            found: dict[str, list[Manifest]] = {}
            for manifests in exported_queues(self._store):
                for number in range(manifests.survey().manifests):
                    manifest = manifests.read(number)
                    found.setdefault(str(manifest.incarnation), []).append(manifest)
            self._manifests = found
        return self._manifests

    def _file(self, file: ListedFile, manifest: Manifest, share: int) -> Iterator[pa.Table]:
        """Yield the rows of a file, of which `share` are read at once."""
        where = f"{self._store.url}/{file.path}"
        try:
            with self._open(file, manifest) as opened:
                read = _parquet if file.path.endswith(".parquet") else _json_lines
                yield from read(opened, file.path, where, share)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise OutputError(f"{where}: cannot be read: {error}") from error

    def _open(self, file: ListedFile, manifest: Manifest) -> BinaryIO:
        with suppress(FileNotFoundError):
            return self._store.open_read(file.path)
        if file.source is not None:
            # The export was killed between commit and move: the next export moves the file.
            folder = Manifests(self._store, manifest.queue).job_path(manifest.number, manifest.job)
            with suppress(FileNotFoundError):
                return self._store.open_read(f"{folder}/{file.source}")
        # An export may have moved it between the two looks.
        return self._store.open_read(file.path)


def _parquet(file: BinaryIO, path: str, where: str, share: int) -> Iterator[pa.Table]:
    with pq.ParquetFile(file) as opened:
        if "envelope" not in opened.schema_arrow.names:
            raise NoEnvelopeError(where)
        metadata = opened.metadata
        row_bytes = sum(
            metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)
        ) // max(metadata.num_rows, 1)
        rows = max(min(READ_ROWS, READ_BYTES // max(row_bytes, 1)) // share, 1)
        for batch in opened.iter_batches(rows, columns=list(MESSAGE_COLUMNS)):
            yield pa.Table.from_batches([batch]).select(MESSAGE_COLUMNS).cast(MESSAGES)


def _json_lines(file: BinaryIO, path: str, where: str, share: int) -> Iterator[pa.Table]:
    rows: list[tuple[int, bytes, bytes]] = []
    size = 0
    for line in _lines(file, path):
        row = json.loads(line)
        if row.get("envelope") is None:
            raise NoEnvelopeError(where)
        text = row["value"]
        body = base64.b64decode(row["value_base64"]) if text is None else text.encode()
        rows.append((row["offset"], base64.b64decode(row["envelope"]), body))
        size += len(line)
        if len(rows) >= READ_ROWS // share or size >= READ_BYTES // share:
            yield _table(rows)
            rows = []
            size = 0
    if rows:
        yield _table(rows)


def _lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    if path.endswith(".gz"):
        return iter(gzip.GzipFile(fileobj=file))
    if path.endswith(".zst"):
        packed = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
        return iter(io.BufferedReader(packed))
    return iter(file)


def _table(rows: list[tuple[int, bytes, bytes]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=MESSAGES)
