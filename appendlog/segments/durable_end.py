"""The `end` file: how far a log is on the disk, for readers in other processes.

Two slots, written in turn with one pwrite after a flush returned, never fsynced. So it
can lag behind the data but never lead it; see docs/log-format.md, section 8.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.layout.crc import crc32c
from appendlog.layout.end_sums import decode_sums, encode_sums
from appendlog.layout.format import (
    CHUNK_CRC_START,
    END_MAGIC,
    END_SLOT,
    END_SLOT_BYTES,
    END_SLOT_POSITIONS,
    END_SUMS_BYTES,
    FORMAT_VERSION,
)
from appendlog.layout.summary import SegmentSummary
from appendlog.segments.segment import SegmentName

END_FILE_NAME = "end"


@dataclass(frozen=True, slots=True)
class DurableEnd:
    """What one slot says.

    Attributes:
        generation: Grows by one with each write.
        recovery_point: Every record below this offset is on the disk.
        segment_base_offset: The segment that was active.
        position: Bytes of that segment that are on the disk.
        segment_generation: Compaction generation of that segment's file.
        summary: Sums of that segment up to `position`, if nothing in it was ever damaged.
    """

    generation: int
    recovery_point: int
    segment_base_offset: int
    position: int
    segment_generation: int = 0
    summary: SegmentSummary | None = None


def encode_slot(end: DurableEnd, incarnation: UUID) -> bytes:
    """Return the 64 bytes of one slot."""

    def pack(crc: int) -> bytes:
        return END_SLOT.pack(
            END_MAGIC,
            crc,
            end.generation,
            incarnation.bytes,
            end.recovery_point,
            end.segment_base_offset,
            end.position,
            end.segment_generation,
            FORMAT_VERSION,
        )

    return pack(crc32c(pack(0)[CHUNK_CRC_START:]))


def decode_slot(data: bytes, incarnation: UUID) -> DurableEnd | None:
    """Return what a slot says, or None when it is torn, empty or another incarnation's."""
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
    """Return the newest valid slot of a log's `end` file, or None when there is none."""
    last = END_SLOT_POSITIONS[-1] + END_SLOT_BYTES + END_SUMS_BYTES
    try:
        data = filesystem.read_file(directory / END_FILE_NAME, last)
    except FileNotFoundError:
        return None
    found: DurableEnd | None = None
    for at in END_SLOT_POSITIONS:
        sums_at = at + END_SLOT_BYTES
        slot = decode_slot(data[at:sums_at], incarnation)
        if slot is not None and (found is None or slot.generation > found.generation):
            sums = decode_sums(data[sums_at : sums_at + END_SUMS_BYTES], slot.generation)
            found = replace(slot, summary=sums)
    return found


def promises_nothing(filesystem: FileSystem, directory: Path) -> bool:
    """Tell whether a log's `end` file is absent, or says that nothing is durable yet."""
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
    """Writes the `end` file of one log.

    Args:
        path: The file; created by the first write.
        incarnation: Of the log.
        generation: Of the last slot that was found; 0 when none was.
    """

    def __init__(self, path: Path, incarnation: UUID, generation: int) -> None:
        self.path = path
        self._incarnation = incarnation
        self._generation = generation

    @property
    def is_written(self) -> bool:
        """Whether there is a slot that says where the log ends."""
        return self._generation > 0

    def write(
        self,
        filesystem: FileSystem,
        descriptors: Descriptors,
        recovery_point: int,
        segment: SegmentName,
        position: int,
        summary: SegmentSummary | None = None,
    ) -> None:
        """Publish a new end; everything below it must be on the disk already.

        Args:
            filesystem: Writes the file.
            descriptors: Open files.
            recovery_point: Of the slot.
            segment: The active one.
            position: Of the slot.
            summary: Sums of the segment up to there; None when they are not to be believed.

        Raises:
            OSError: The slot was not written.
        """
        self._generation += 1
        slot = encode_slot(
            DurableEnd(
                self._generation,
                recovery_point,
                segment.base_offset,
                position,
                segment.generation,
            ),
            self._incarnation,
        )
        # Without sums of its own a slot must not keep those of one that was torn: after that
        # one its generation is used again.
        slot += bytes(END_SUMS_BYTES) if summary is None else encode_sums(summary, self._generation)
        flags = os.O_RDWR | os.O_CREAT
        with descriptors.borrow(filesystem, self.path, flags) as descriptor:
            written = filesystem.pwrite(descriptor, slot, END_SLOT_POSITIONS[self._generation & 1])
        if written != len(slot):
            raise OSError(f"{written} of {len(slot)} bytes written")
