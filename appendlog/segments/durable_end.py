"""The `end` file: up to where a log is on the disk, for readers in other processes.

It has two slots. One pwrite after each flush writes one of them, in turn, without a sync. So the
file may be behind the data, but never ahead of it; see docs/log-format.md, section 8.
"""

import os
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from appendlog.errors import LogFailedError
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.layout.crc import crc32c
from appendlog.layout.end_sums import decode_sums, encode_sums
from appendlog.layout.format import (
    CHUNK_CRC_START,
    CRC_FRONT,
    END_MAGIC,
    END_SLOT,
    END_SLOT_BYTES,
    END_SLOT_POSITIONS,
    END_SLOT_TAIL,
    END_SUMS_BYTES,
    FORMAT_VERSION,
)
from appendlog.layout.summary import SegmentSummary
from appendlog.segments.segment import SegmentName

END_FILE_NAME = "end"


class DurableEnd(NamedTuple):
    """Content of one slot.

    Attributes:
        generation: Number of the write; grows by one with each.
        recovery_point: Offset below which every record is on the disk.
        segment_base_offset: Base offset of the segment that was active.
        position: Number of bytes of that segment that are on the disk.
        segment_generation: Compaction generation of that segment's file.
        summary: Sums of that segment up to `position`, if it was never damaged.
    """

    generation: int
    recovery_point: int
    segment_base_offset: int
    position: int
    segment_generation: int = 0
    summary: SegmentSummary | None = None


def encode_slot(end: DurableEnd, incarnation: UUID) -> bytes:
    """Return the slot as 64 bytes."""
    tail = END_SLOT_TAIL.pack(
        end.generation,
        incarnation.bytes,
        end.recovery_point,
        end.segment_base_offset,
        end.position,
        end.segment_generation,
        FORMAT_VERSION,
    )
    return CRC_FRONT.pack(END_MAGIC, crc32c(tail)) + tail


def decode_slot(data: bytes, incarnation: UUID) -> DurableEnd | None:
    """Return the content of a slot; None if it is torn, empty or of another incarnation."""
    if len(data) != END_SLOT_BYTES:
        return None
    magic, crc, generation, owner, *rest, version = END_SLOT.unpack(data)
    if magic != END_MAGIC or crc32c(data[CHUNK_CRC_START:]) != crc:
        return None
    if owner != incarnation.bytes or version > FORMAT_VERSION:
        return None
    return DurableEnd(generation, *rest)


def read_durable_end(
    filesystem: FileSystem, directory: Path, incarnation: UUID
) -> DurableEnd | None:
    """Return the newest valid slot of a log's `end` file, or None if there is none."""
    last = END_SLOT_POSITIONS[-1] + END_SLOT_BYTES + END_SUMS_BYTES
    try:
        data = filesystem.read_file(directory / END_FILE_NAME, last)
    except FileNotFoundError:
        return None
    return newest_slot(data, incarnation)


def newest_slot(data: bytes, incarnation: UUID) -> DurableEnd | None:
    """Return the newest valid slot in the octets of an `end` file, or None if there is none."""
    found: DurableEnd | None = None
    for at in END_SLOT_POSITIONS:
        sums_at = at + END_SLOT_BYTES
        slot = decode_slot(data[at:sums_at], incarnation)
        if slot is not None and (found is None or slot.generation > found.generation):
            sums = decode_sums(data[sums_at : sums_at + END_SUMS_BYTES], slot.generation)
            found = DurableEnd(*slot[:-1], sums)
    return found


def has_no_durable_end(filesystem: FileSystem, directory: Path) -> bool:
    """Return whether a log's `end` file is missing, or says that nothing is durable yet."""
    last = END_SLOT_POSITIONS[-1] + END_SLOT_BYTES
    try:
        data = filesystem.read_file(directory / END_FILE_NAME, last)
    except FileNotFoundError:
        return True
    for at in END_SLOT_POSITIONS:
        slot = data[at : at + END_SLOT_BYTES]
        if any(slot):
            if len(slot) != END_SLOT_BYTES:
                return False
            magic, _, _, _, _, _, position, _, _ = END_SLOT.unpack(slot)
            if magic != END_MAGIC or position:
                return False
    return True


class DurableEndFile:
    """Writer of the `end` file of one log.

    Args:
        directory: Directory of the log; the first write creates the file in it.
        incarnation: Incarnation of the log.
        generation: Generation of the last slot found; 0 if there was none.

    Attributes:
        is_written: Whether a slot says where the log ends.
    """

    def __init__(self, directory: Path, incarnation: UUID, generation: int) -> None:
        self._directory = directory
        self._incarnation = incarnation
        self._generation = generation
        self.is_written = generation > 0

    @cached_property
    def path(self) -> Path:
        """Path of the file. Most logs of a start are not written for a while."""
        return self._directory / END_FILE_NAME

    def next_slot(
        self,
        recovery_point: int,
        segment: SegmentName,
        position: int,
        summary: SegmentSummary | None = None,
    ) -> tuple[bytes, int]:
        """Return the octets of a new durable end, and their position in the file.

        Everything below it must be on the disk before they are written. `advance` must follow.

        Args:
            recovery_point: Offset below which every record is on the disk.
            segment: Name of the active segment.
            position: Number of bytes of that segment that are on the disk.
            summary: Sums of the segment up to there; None if they cannot be trusted.
        """
        generation = self._generation + 1
        slot = encode_slot(
            DurableEnd(
                generation,
                recovery_point,
                segment.base_offset,
                position,
                segment.generation,
            ),
            self._incarnation,
        )
        # Without sums the slot must overwrite those of a torn write, which had the same generation:
        # a reader would take them for its own.
        slot += bytes(END_SUMS_BYTES) if summary is None else encode_sums(summary, generation)
        return slot, END_SLOT_POSITIONS[generation & 1]

    def advance(self) -> None:
        """Note that the octets of `next_slot` are written, or may be: the next ones are others."""
        self._generation += 1
        self.is_written = True

    def write(
        self,
        filesystem: FileSystem,
        descriptors: Descriptors,
        recovery_point: int,
        segment: SegmentName,
        position: int,
        summary: SegmentSummary | None = None,
    ) -> None:
        """Write a new durable end; everything below it must be on the disk already.

        Args:
            filesystem: File operations.
            descriptors: Cache of open files.
            recovery_point: See `next_slot`.
            segment: See `next_slot`.
            position: See `next_slot`.
            summary: See `next_slot`.

        Raises:
            LogFailedError: The slot could not be written.
        """
        slot, slot_position = self.next_slot(recovery_point, segment, position, summary)
        self.advance()
        flags = os.O_RDWR | os.O_CREAT
        try:
            with descriptors.borrow(filesystem, self.path, flags) as descriptor:
                written = filesystem.pwrite(descriptor, slot, slot_position)
        except OSError as error:
            raise LogFailedError(self.path, error) from error
        if written != len(slot):
            raise LogFailedError(self.path, OSError(f"{written} of {len(slot)} bytes written"))
