"""Reading a segment chunk by chunk, without previous knowledge of it.

Recovery uses it, and every read that meets damage: `chunk_at` validates one chunk, `find_chunk`
searches forward for the next valid one. Memory: one window, or one chunk if that is larger.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final, Self

from appendlog.files.filesystem import FileSystem
from appendlog.layout.chunk import ChunkHeader, own_header
from appendlog.layout.crc import crc32c
from appendlog.layout.format import CHUNK_CRC_START, CHUNK_HEADER_BYTES, CHUNK_MAGIC_BYTES
from appendlog.layout.records import sum_chunks

WINDOW_BYTES: Final = 1 << 20
_NO_FILES: Final = FileSystem()
_NO_FILE: Final = -1


class SegmentScan:
    """Window that moves over one segment file.

    Args:
        filesystem: File operations.
        descriptor: Descriptor of the open file, owned by the caller.
        size: Size of the part to scan; bytes at or after this position are not read.
        salt: Salt of the log, which its chunks carry.
        window_bytes: Minimum number of bytes to read at once.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        descriptor: int,
        size: int,
        salt: int,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self._filesystem = filesystem
        self._descriptor = descriptor
        self._size = size
        self._salt = salt
        self._window_bytes = window_bytes
        self._data = b""
        self._start = 0
        self._headers: Mapping[int, bytes] = {}

    @classmethod
    def of_window(
        cls, data: bytes, start: int, size: int, salt: int, headers: Mapping[int, bytes]
    ) -> Self:
        """Return a scan of octets that were read already: it reads no file, and finds no others.

        Args:
            data: The octets from `start` on, up to the end of the part to scan.
            start: Position of the first one.
            size: Size of the part to scan.
            salt: Salt of the log.
            headers: Headers of some chunks before `start`, by position.
        """
        scan = cls(_NO_FILES, _NO_FILE, size, salt)
        scan._data = data
        scan._start = start
        scan._headers = headers
        return scan

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes at `position`; fewer only at the end of the scanned part.

        The scanned part ends where the file does, if that was shortened since.
        """
        size = max(min(size, self._size - position), 0)
        at = position - self._start
        if size and (at < 0 or at + size > len(self._data)):
            if self._descriptor == _NO_FILE:
                return self._headers.get(position, b"")[:size]
            window = min(max(size, self._window_bytes), self._size - position)
            self._data = self._filesystem.read_all(self._descriptor, window, position)
            self._start = position
            at = 0
            if len(self._data) < window:
                # The file was shortened: nothing follows, so no search must go on behind its end.
                self._size = position + len(self._data)
        return self._data[at : at + size] if size else b""

    def header_at(self, position: int, minimum_offset: int) -> ChunkHeader | None:
        """Return the header at `position` if it is plausible; its chunk may be torn."""
        data = self.read(position, CHUNK_HEADER_BYTES)
        if len(data) < CHUNK_HEADER_BYTES:
            return None
        return own_header(data, self._salt, minimum_offset)

    def chunk_at(self, position: int, minimum_offset: int) -> ChunkHeader | None:
        """Return the header of the whole valid chunk at `position`, None if there is none.

        Args:
            position: Position of the chunk.
            minimum_offset: Lowest valid base offset.
        """
        header = self.header_at(position, minimum_offset)
        if header is None or position + header.chunk_bytes > self._size:
            return None
        data = self.read(position, header.chunk_bytes)
        return header if crc32c(memoryview(data)[CHUNK_CRC_START:]) == header.crc else None

    def sum_chunks(
        self, position: int, begin_before: int, minimum_offset: int, sums: array[int]
    ) -> int:
        """Add up the valid data chunks from `position` on that begin before `begin_before`.

        Handles many chunks at once, but only those that lie wholly in the window. If this returns
        `position` unchanged, `chunk_at` shows what is there.

        Args:
            position: Position of the first chunk.
            begin_before: Position at or after which a chunk ends the run.
            minimum_offset: Lowest valid base offset.
            sums: Sums to add to; see `appendlog.layout.records.sum_chunks`.

        Returns:
            The position after the last chunk that was added.
        """
        at = position - self._start
        if at < 0 or at + CHUNK_HEADER_BYTES > len(self._data):
            self.read(position, CHUNK_HEADER_BYTES)
            at = position - self._start
        if not 0 <= at < len(self._data):
            return position
        end = min(len(self._data), self._size - self._start)
        stop = begin_before - self._start
        return self._start + sum_chunks(self._data, at, end, stop, self._salt, minimum_offset, sums)

    def payload(self, position: int, header: ChunkHeader) -> bytes:
        """Return the bytes after the header of a chunk."""
        size = header.chunk_bytes - CHUNK_HEADER_BYTES
        return self.read(position + CHUNK_HEADER_BYTES, size)

    def find_chunk(self, position: int, minimum_offset: int) -> int | None:
        """Return the position of the first valid chunk after `position`, None if there is none.

        A damaged chunk whose length is intact leads directly to its successor, whatever its records
        contain; otherwise this tries every magic.
        """
        torn = self.header_at(position, minimum_offset)
        if torn is not None:
            successor = position + torn.chunk_bytes
            if successor < self._size and self.chunk_at(successor, minimum_offset):
                return successor
        position += 1
        while position < self._size:
            data = self.read(position, WINDOW_BYTES)
            start = position
            at = data.find(CHUNK_MAGIC_BYTES)
            while at >= 0:
                if self.chunk_at(start + at, minimum_offset):
                    return start + at
                at = data.find(CHUNK_MAGIC_BYTES, at + 1)
            # The last three bytes may be the start of a magic.
            position = start + max(len(data) - len(CHUNK_MAGIC_BYTES) + 1, 1)
        return None
