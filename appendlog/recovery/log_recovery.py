"""Recovery of a log: its segments, its end, and what a crash or damage did to them.

Sealed segments are known from their footers. A footer is believed only because a later
segment exists: sealing puts the whole segment on the disk before the next one is made.
The last segment, sealed or not, is read chunk by chunk (`segment_recovery`).

Source: docs/log-format.md, section 9.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from crc32c import crc32c

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.chunk import decode_chunk_header, is_plausible
from appendlog.layout.format import (
    CHUNK_CRC_START,
    CHUNK_HEADER_BYTES,
    FOOTER_MAGIC,
    FOOTER_TRAILER,
    FOOTER_TRAILER_BYTES,
)
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    decode_segment_header,
    segment_header_bytes,
)
from appendlog.layout.summary import PLAIN_FOOTER_BYTES, SegmentSummary, decode_footer
from appendlog.recovery.segment_recovery import RecoveryContext, SegmentRecovery
from appendlog.segments.durable_end import DurableEnd, read_durable_end
from appendlog.segments.segment import Segment, SegmentName, segment_names


@dataclass(slots=True)
class RecoveredLog:
    """What recovery hands to the log.

    Attributes:
        segments: In order; the last one may be sealed.
        end_offset: Of what is in the files.
        lost_end_offset: Where the log must go on; more than `end_offset` when the durable
            end says that records behind it were once on the disk.
        durable_end: Last valid slot of the `end` file, or None.
        is_durable: The `end` file already covers every byte that was found.
    """

    segments: list[Segment] = field(default_factory=list)
    end_offset: int = 0
    lost_end_offset: int = 0
    durable_end: DurableEnd | None = None
    is_durable: bool = True


def recover(context: RecoveryContext) -> RecoveredLog:
    """Read a log directory, mend what a crash left, and fill in the context's report.

    A directory that does not exist is an empty log; nothing is created.

    Raises:
        UnsupportedFormatError: A segment is of another format version.
        OSError: A file operation failed.
    """
    started = time.perf_counter()
    recovered = RecoveredLog()
    filesystem, report = context.filesystem, context.report
    if filesystem.exists(context.directory):
        recovered.durable_end = read_durable_end(
            filesystem, context.directory, context.identity.incarnation
        )
        names = newest_generations(context.directory, filesystem)
        recovered.segments = _recover_segments(context, names, recovered.durable_end)
    segments = recovered.segments
    for before, after in pairwise(segments):
        # Retention removes files below the floor, and a power cut keeps any of them.
        report.add_lost(max(before.end_offset, context.settled_floor), after.base_offset)
    recovered.end_offset = segments[-1].end_offset if segments else 0
    _compare_with_durable_end(recovered, context)
    report.segment_count = len(segments)
    report.record_count = sum(segment.summary.record_count for segment in segments)
    report.seconds = time.perf_counter() - started
    return recovered


def _compare_with_durable_end(recovered: RecoveredLog, context: RecoveryContext) -> None:
    durable = recovered.durable_end
    once_end = max(context.known_end, durable.recovery_point if durable is not None else 0)
    recovered.lost_end_offset = max(recovered.end_offset, once_end)
    if once_end > recovered.end_offset:
        context.report.add_lost(max(recovered.end_offset, context.settled_floor), once_end)
        context.report.damaged_chunks = max(context.report.damaged_chunks, 1)
    if durable is None:
        recovered.is_durable = not recovered.segments and not once_end
        return
    last = recovered.segments[-1] if recovered.segments else None
    recovered.is_durable = last is not None and (
        durable.segment_base_offset == last.base_offset
        and durable.position == last.size_bytes
        and durable.recovery_point == recovered.end_offset
    )


def newest_generations(directory: Path, filesystem: FileSystem) -> list[SegmentName]:
    """Return a log's segments in order: of several generations the newest valid one.

    A directory that does not exist holds none.

    Raises:
        OSError: A file cannot be read.
        UnsupportedFormatError: A compacted segment is of another format version.
    """
    by_base: dict[int, list[SegmentName]] = {}
    if filesystem.exists(directory):
        for name in segment_names(filesystem.listdir(directory)):
            by_base.setdefault(name.base_offset, []).append(name)
    return [_newest_valid(directory, filesystem, by_base[base]) for base in sorted(by_base)]


def _newest_valid(
    directory: Path, filesystem: FileSystem, names: Sequence[SegmentName]
) -> SegmentName:
    for name in reversed(names[1:]):
        path = directory / name.file_name
        header = decode_segment_header(filesystem.read_file(path, SEGMENT_HEADER_BYTES_MAX), path)
        if header is not None and (header.base_offset, header.generation) == name:
            return name
    return names[0]


def _recover_segments(
    context: RecoveryContext, names: Sequence[SegmentName], durable: DurableEnd | None
) -> list[Segment]:
    segments: list[Segment] = []
    previous_timestamp_ns = 0
    for name in names:
        is_last = name is names[-1]
        segment = None
        if not is_last:
            segment = read_sealed(
                context.directory, context.identity, name, context.filesystem, context.descriptors
            )
        if segment is None:
            durable_position = 0
            known = None
            if durable is not None and durable.segment_base_offset == name.base_offset:
                durable_position = durable.position
                known = (
                    durable if is_last and durable.segment_generation == name.generation else None
                )
            segment = SegmentRecovery(
                context, name, durable_position, is_last, previous_timestamp_ns, known
            ).run()
        if segment is not None:
            segments.append(segment)
            previous_timestamp_ns = segment.summary.last_timestamp_ns
    return segments


def read_sealed(
    directory: Path,
    identity: LogIdentity,
    name: SegmentName,
    filesystem: FileSystem,
    descriptors: Descriptors,
    open_flags: int = os.O_RDWR,
) -> Segment | None:
    """Return a segment known from its footer, or None when it has no valid one.

    Reads the end of the file only.

    Raises:
        OSError: The file cannot be read.
    """
    with descriptors.borrow(filesystem, directory / name.file_name, open_flags) as descriptor:
        size = filesystem.size(descriptor)
        tail_bytes = min(size, PLAIN_FOOTER_BYTES)
        tail = filesystem.read_all(descriptor, tail_bytes, size - tail_bytes)
        if len(tail) < PLAIN_FOOTER_BYTES:
            return None
        footer_bytes, magic = FOOTER_TRAILER.unpack(tail[-FOOTER_TRAILER_BYTES:])
        if magic != FOOTER_MAGIC or not PLAIN_FOOTER_BYTES <= footer_bytes <= size:
            return None
        if footer_bytes > tail_bytes:
            tail = filesystem.read_all(descriptor, footer_bytes, size - footer_bytes)
    summary = _decode_sealing(tail[-footer_bytes:], identity.salt, name.base_offset)
    if summary is None:
        return None
    segment = Segment(directory, name, segment_header_bytes(identity), summary)
    segment.size_bytes = size
    segment.data_bytes = size - footer_bytes
    segment.is_sealed = True
    return segment


def _decode_sealing(chunk: bytes, salt: int, base_offset: int) -> SegmentSummary | None:
    header = decode_chunk_header(chunk)
    if not is_plausible(header, salt, base_offset) or header.chunk_bytes != len(chunk):
        return None
    if crc32c(memoryview(chunk)[CHUNK_CRC_START:]) != header.crc:
        return None
    return decode_footer(chunk[CHUNK_HEADER_BYTES:])
