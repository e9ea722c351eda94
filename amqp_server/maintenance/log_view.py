"""Shows the files of one log as rows: records, chunks, segments, index, durable end.

Safe beside a running server: records end at the durable end, and files that retention removes
during the reading are skipped.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.record_view import record_view
from amqp_server.admin.views.values import octets_json, time_text
from appendlog import FileSystem, LogError, LogReader, OffsetOutOfRangeError
from appendlog.checking.segment_walk import FoundFault, walk_segment
from appendlog.files.descriptors import Descriptors
from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    CONTROL_GAP,
    FLAG_TRANSACTION,
    GAP_MARKER,
    GAP_MARKER_BYTES,
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER,
    INDEX_MAGIC,
    TRANSACTION_ID_BYTES,
)
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    SegmentHeader,
    decode_segment_header,
    segment_header_bytes,
)
from appendlog.layout.summary import SegmentSummary, decode_footer
from appendlog.recovery.generations import newest_generations
from appendlog.recovery.log_owner import log_owner
from appendlog.recovery.own_segments import own_segments
from appendlog.segments.durable_end import END_FILE_NAME, read_durable_end
from appendlog.segments.scan import SegmentScan
from appendlog.segments.sealed import read_sealed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from appendlog.layout.chunk import ChunkHeader
    from appendlog.recovery.own_segments import ForeignFile

INDEX_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest size of an index file in bytes; no index is longer."""
ATTEMPTS_MAX: Final = 50
"""Attempts to open a log whose files disappear during the reading."""
_KINDS: Final = ("data", "control")


def record_rows(
    directory: Path, start: int | None, until: int | None, body_bytes_max: int | None
) -> Iterator[dict[str, Any]]:
    """Return the records of a log from one offset up to another, or to the durable end.

    A damaged range becomes a row with `lost`: the offsets that cannot be read.

    Args:
        directory: Directory of the log.
        start: Lowest offset; None for the log's start.
        until: End, exclusive; None for the durable end.
        body_bytes_max: Bytes of each body to show; None for all.

    Raises:
        LogError: No segment can be read.
        OSError: A file cannot be read.
    """
    attempts = ATTEMPTS_MAX
    next_offset = start or 0
    while True:
        try:
            for row, behind in _read_on(directory, next_offset, until, body_bytes_max):
                yield row
                next_offset = behind
        except (FileNotFoundError, OffsetOutOfRangeError):
            # Retention or compaction removed a file: open the log again at the present offset.
            attempts -= 1
            if not attempts:
                raise
        else:
            return


def _read_on(
    directory: Path, start: int, until: int | None, body_bytes_max: int | None
) -> Iterator[tuple[dict[str, Any], int]]:
    """Return rows, each with the offset at which to continue."""
    with LogReader(directory, skip_damage=True) as reader:
        first = max(start, reader.log_start_offset)
        last = reader.log_end_offset if until is None else min(until, reader.log_end_offset)
        if first >= last:
            return
        for batch in reader.read(first, last):
            lost = batch.lost[::-1]
            rows = zip(batch.offsets, batch.timestamps_ns, batch.messages, strict=True)
            for offset, timestamp_ns, message in rows:
                while lost and lost[-1][0] < offset:
                    yield _lost_row(*lost.pop())
                yield record_view(offset, timestamp_ns, message, body_bytes_max), offset + 1
            while lost:
                yield _lost_row(*lost.pop())


def _lost_row(start: int, end: int) -> tuple[dict[str, Any], int]:
    return {"lost": [start, end]}, end


def read_header(path: Path) -> SegmentHeader:
    """Return the header of a segment.

    Raises:
        LogError: The file has no valid header, or has another format version.
        OSError: The file cannot be read.
    """
    header = decode_segment_header(FileSystem().read_file(path, SEGMENT_HEADER_BYTES_MAX), path)
    if header is None:
        raise LogError(f"{path}: no valid segment header")
    return header


def chunk_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the chunks of one segment; bytes without a valid chunk are rows with `fault`.

    Raises:
        LogError: The segment has no valid header.
        OSError: The file cannot be read.
    """
    identity = read_header(path).identity
    filesystem = FileSystem()
    descriptors = Descriptors(1)
    try:
        with descriptors.borrow(filesystem, path, os.O_RDONLY) as descriptor:
            size = filesystem.size(descriptor)
            scan = SegmentScan(filesystem, descriptor, size, identity.salt)
            for found in walk_segment(scan, segment_header_bytes(identity), size, 0):
                if isinstance(found, FoundFault):
                    yield {
                        "position": found.position,
                        "fault": "no valid chunk",
                        "bytes": found.end - found.position,
                        "is_tail": found.is_tail,
                    }
                else:
                    yield _chunk_row(found.position, found.header, found.data)
    finally:
        descriptors.close()


def _chunk_row(position: int, header: ChunkHeader, data: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {
        "position": position,
        "kind": _KINDS[header.kind],
        "bytes": header.chunk_bytes,
        "crc": f"{header.crc:08x}",
        "is_crc_right": True,
        "version": header.version,
        "flags": header.flags,
        "base_offset": header.base_offset,
        "end_offset": header.end_offset,
        "record_count": header.record_count,
        "transient_count": header.transient_count,
        "body_bytes": header.body_bytes,
        "first_timestamp": time_text(header.first_timestamp_ns),
        "last_timestamp": time_text(header.last_timestamp_ns),
        "min_expiry": time_text(header.min_expiry_ns),
        "max_expiry": time_text(header.max_expiry_ns),
        "priority_bitmap": header.priority_bitmap,
    }
    payload = data[CHUNK_HEADER_BYTES:]
    if header.flags & FLAG_TRANSACTION:
        row["transaction_id"] = payload[:TRANSACTION_ID_BYTES].hex()
    if header.is_control:
        row |= _control_row(header, payload)
    return row


def _control_row(header: ChunkHeader, payload: bytes) -> dict[str, Any]:
    footer = decode_footer(payload)
    if footer is not None:
        return {"control": "footer", "sums": summary_view(footer)}
    if len(payload) == GAP_MARKER_BYTES:
        control, _, reason, start = GAP_MARKER.unpack(payload)
        if control == CONTROL_GAP:
            missing = [start, header.base_offset]
            return {"control": "advance", "reason": reason, "not_in_the_log": missing}
    return {"control": "unknown"}


def summary_view(summary: SegmentSummary) -> dict[str, Any]:
    """Return the sums of a segment as JSON values."""
    return {
        "chunk_count": summary.chunk_count,
        "first_offset": summary.first_offset,
        "end_offset": summary.end_offset,
        "record_count": summary.record_count,
        "transient_count": summary.transient_count,
        "body_bytes": summary.body_bytes,
        "first_timestamp": time_text(summary.first_timestamp_ns),
        "last_timestamp": time_text(summary.last_timestamp_ns),
        "min_expiry": time_text(summary.min_expiry_ns),
        "max_expiry": time_text(summary.max_expiry_ns),
        "priority_bitmap": summary.priority_bitmap,
    }


def segment_rows(directory: Path) -> Iterator[dict[str, Any]]:
    """Return the segments of a log in order, from headers and footers; reads no chunks.

    Raises:
        LogError: A segment has another format version.
        OSError: The directory or a file cannot be read.
    """
    filesystem = FileSystem()
    descriptors = Descriptors(1)
    names = newest_generations(directory, filesystem)
    owner = log_owner(directory, names, filesystem, descriptors) if names else None
    foreign_files: list[ForeignFile] = []
    if owner is not None:
        own = own_segments(directory, owner, filesystem)
        names = own.names
        foreign_files = own.foreign_files
    for name in names:
        path = directory / name.file_name
        row: dict[str, Any] = {
            "file": path.name,
            "base_offset": name.base_offset,
            "generation": name.generation,
        }
        try:
            row["bytes"] = path.stat().st_size
            try:
                header = read_header(path)
            except LogError as error:
                yield {**row, "error": str(error)}
                continue
            row["created"] = time_text(header.created_ns)
            sealed = read_sealed(
                directory, header.identity, name, filesystem, descriptors, os.O_RDONLY
            )
            row["is_sealed"] = sealed is not None
            if sealed is not None:
                row |= summary_view(sealed.summary)
            row["index_entries"] = _index_entry_count(directory / name.index_name)
        except FileNotFoundError:
            # Retention removed the segment after the directory was listed.
            continue
        finally:
            descriptors.close()
        yield row
    for foreign in foreign_files:
        yield {
            "file": foreign.name.file_name,
            "error": f"no segment of this log: {foreign.reason}",
        }


def _index_entry_count(path: Path) -> int | None:
    try:
        return max(path.stat().st_size // INDEX_ENTRY_BYTES - 1, 0)
    except FileNotFoundError:
        return None


def index_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the entries of an index file; does not compare them with the segment.

    Raises:
        LogError: The file is no index.
        OSError: The file cannot be read.
    """
    data = FileSystem().read_file(path, INDEX_BYTES_MAX)
    if len(data) < INDEX_ENTRY_BYTES:
        raise LogError(f"{path}: {len(data)} bytes, an index has at least {INDEX_ENTRY_BYTES}")
    magic, salt, base_offset = INDEX_HEADER.unpack_from(data)
    if magic != INDEX_MAGIC:
        raise LogError(f"{path}: not an index")
    yield {"salt": f"{salt:08x}", "base_offset": base_offset, "file_bytes": len(data)}
    whole = len(data) // INDEX_ENTRY_BYTES * INDEX_ENTRY_BYTES
    entries = INDEX_ENTRY.iter_unpack(memoryview(data)[INDEX_ENTRY_BYTES:whole])
    for relative_offset, position, timestamp_ns in entries:
        yield {
            "offset": base_offset + relative_offset,
            "position": position,
            "max_timestamp": time_text(timestamp_ns),
        }


def end_view(directory: Path) -> dict[str, Any]:
    """Return the content of a log's `end` file.

    Raises:
        LogError: The file has no valid slot, or no segment names the log's owner.
        OSError: A file cannot be read.
    """
    filesystem = FileSystem()
    descriptors = Descriptors(1)
    names = newest_generations(directory, filesystem)
    try:
        identity = log_owner(directory, names, filesystem, descriptors) if names else None
    finally:
        descriptors.close()
    if identity is None:
        raise LogError(f"{directory}: no segment names the queue of its `end` file")
    end = read_durable_end(FileSystem(), directory, identity.incarnation)
    if end is None:
        raise LogError(f"{directory / END_FILE_NAME}: missing, or no valid slot")
    return {
        **octets_json("vhost", identity.vhost.encode("utf-8", "surrogateescape")),
        **octets_json("queue", identity.queue.encode("utf-8", "surrogateescape")),
        "incarnation": str(identity.incarnation),
        "generation": end.generation,
        "recovery_point": end.recovery_point,
        "segment_base_offset": end.segment_base_offset,
        "segment_generation": end.segment_generation,
        "position": end.position,
    }
