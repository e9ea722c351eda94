"""The sparse index: from an offset or a time to a chunk near it.

An entry per `index_interval_bytes`, at a chunk start. The index is rebuilt, not trusted:
whoever uses an entry checks that a valid chunk of a fitting offset stands there, and
scans the segment from its start otherwise. See docs/log-format.md, section 7.
"""

import os
from array import array
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from struct import error as StructError  # noqa: N812 - it is a class
from typing import NamedTuple

from appendlog.files.filesystem import FileSystem
from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER,
    INDEX_MAGIC,
    U32_MAX,
)


class IndexEntry(NamedTuple):
    """One place in a segment.

    Attributes:
        offset: Base offset of the chunk there.
        position: Where the chunk starts.
        max_timestamp_ns: Greatest append time before that chunk.
    """

    offset: int
    position: int
    max_timestamp_ns: int


class ActiveIndex:
    """The index of the active segment: in memory, copied to its file in groups.

    Args:
        base_offset: Of the segment.
        interval_bytes: Least distance between entries.
    """

    __slots__ = ("_base_offset", "_interval_bytes", "_offsets", "_positions", "_stored", "_times")

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._offsets = array("Q")
        self._positions = array("Q")
        self._times = array("q")
        self._stored = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def unstored_count(self) -> int:
        """Return the number of entries that are not in the file yet."""
        return len(self._offsets) - self._stored

    def add(self, offset: int, position: int, max_timestamp_ns: int) -> None:
        """Note a data chunk; most are too near to the last entry to get one."""
        if self._positions and position - self._positions[-1] < self._interval_bytes:
            return
        if offset - self._base_offset > U32_MAX or position > U32_MAX:
            return
        self._times.append(max_timestamp_ns)
        self._positions.append(position)
        self._offsets.append(offset)

    def lookup(self, offset: int) -> int | None:
        """Return the position of the last entry at or before `offset`, None when none is."""
        found = bisect_right(self._offsets, offset)
        return self._positions[found - 1] if found else None

    def store(self, filesystem: FileSystem, descriptor: int, salt: int) -> None:
        """Append what is not in the file yet. The file must be this segment's or new."""
        buffers = []
        position = INDEX_ENTRY_BYTES * (1 + self._stored)
        if not self._stored:
            position = 0
            buffers.append(INDEX_HEADER.pack(INDEX_MAGIC, salt, self._base_offset))
        pack, base = INDEX_ENTRY.pack, self._base_offset
        buffers.append(
            b"".join(
                pack(self._offsets[i] - base, self._positions[i], self._times[i])
                for i in range(self._stored, len(self._offsets))
            )
        )
        filesystem.write_all(descriptor, buffers, position, sync=False)
        self._stored = len(self._offsets)


def lookup_in_file(
    filesystem: FileSystem, path: Path, salt: int, base_offset: int, offset: int
) -> int | None:
    """Return the position of the last entry at or before `offset` of an index file.

    Reads a few entries only (binary search). Returns None when there is no such entry, no
    file or no valid one; the position is a hint that the caller checks.
    """
    try:
        descriptor = filesystem.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        if filesystem.pread(descriptor, INDEX_ENTRY_BYTES, 0) != _header(salt, base_offset):
            return None
        low, high = 0, filesystem.size(descriptor) // INDEX_ENTRY_BYTES - 1
        position = None
        while low < high:
            middle = (low + high) // 2
            data = filesystem.pread(descriptor, INDEX_ENTRY_BYTES, INDEX_ENTRY_BYTES * (middle + 1))
            relative_offset, found, _ = INDEX_ENTRY.unpack(data)
            if base_offset + relative_offset <= offset:
                position, low = found, middle + 1
            else:
                high = middle
    except (OSError, StructError):  # replaced by a shorter one while we read
        return None
    else:
        return position
    finally:
        filesystem.close(descriptor)


def read_index(
    filesystem: FileSystem, path: Path, salt: int, base_offset: int, log_bytes: int
) -> list[IndexEntry] | None:
    """Return all entries of an index file, or None when the file is missing or not valid.

    Args:
        filesystem: Reads the file.
        path: The index file.
        salt: Of the log.
        base_offset: Of the segment.
        log_bytes: Size of the segment; entries at or behind it make the index invalid.
    """
    try:
        data = filesystem.read_file(path, INDEX_ENTRY_BYTES * (2 + log_bytes // CHUNK_HEADER_BYTES))
    except OSError:
        return None
    if data[:INDEX_ENTRY_BYTES] != _header(salt, base_offset) or len(data) % INDEX_ENTRY_BYTES:
        return None
    entries = [
        IndexEntry(base_offset + relative_offset, position, max_timestamp_ns)
        for relative_offset, position, max_timestamp_ns in INDEX_ENTRY.iter_unpack(
            memoryview(data)[INDEX_ENTRY_BYTES:]
        )
    ]
    if any(
        later.offset <= entry.offset or later.position <= entry.position
        for entry, later in pairwise(entries)
    ):
        return None
    return None if entries and entries[-1].position >= log_bytes else entries


def _header(salt: int, base_offset: int) -> bytes:
    return INDEX_HEADER.pack(INDEX_MAGIC, salt, base_offset)
