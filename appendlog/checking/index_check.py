"""Comparison of an index file with the chunks of its segment, during a walk over the chunks."""

from collections.abc import Iterator
from itertools import pairwise

from appendlog.checking.problem import Level, Problem, Problems
from appendlog.files.filesystem import FileSystem
from appendlog.layout.chunk import ChunkHeader
from appendlog.layout.format import CHUNK_HEADER_BYTES, INDEX_ENTRY, INDEX_ENTRY_BYTES
from appendlog.segments.index import IndexEntry, index_header
from appendlog.segments.segment import Segment


class IndexCheck:
    """Comparison of one index with its segment. A wrong index is harmless: it is rebuilt.

    Args:
        filesystem: File operations.
        segment: Segment of the index.
        salt: Salt of the log.
        problems: Receives the problem found; at most one per index.
    """

    def __init__(
        self, filesystem: FileSystem, segment: Segment, salt: int, problems: Problems
    ) -> None:
        self.entry_count = 0
        self._segment = segment
        self._problems = problems
        self._is_wrong = False
        self._entries: Iterator[IndexEntry] = iter(self._read(filesystem, salt))
        self._next = next(self._entries, None)

    def note(self, position: int, header: ChunkHeader, last_timestamp_ns: int) -> None:
        """Compare the index with a data chunk; chunks come in order.

        Args:
            position: Position of the chunk.
            header: Header of the chunk.
            last_timestamp_ns: Greatest append time before the chunk.
        """
        entry = self._next
        if entry is None or entry.position > position:
            return
        expected = IndexEntry(header.base_offset, position, last_timestamp_ns)
        if entry != expected:
            self._add_problem(
                "index-wrong", f"an entry says {tuple(entry)}, there is no such chunk"
            )
        self._next = next(self._entries, None)

    def finish(self, end_position: int) -> None:
        """Check the remaining entries: those after all chunks that were walked."""
        if self._next is not None and self._next.position < end_position:
            self._add_problem(
                "index-wrong", f"an entry says {tuple(self._next)}, there is no chunk"
            )

    def _read(self, filesystem: FileSystem, salt: int) -> list[IndexEntry]:
        segment = self._segment
        bytes_max = INDEX_ENTRY_BYTES * (2 + segment.size_bytes // CHUNK_HEADER_BYTES)
        try:
            data = filesystem.read_file(segment.index_path, bytes_max)
        except FileNotFoundError:
            if segment.is_sealed:
                self._add_problem("index-missing", "there is no index")
            return []
        except OSError as error:
            self._add_problem("index-wrong", str(error))
            return []
        whole = len(data) // INDEX_ENTRY_BYTES * INDEX_ENTRY_BYTES
        if data[:INDEX_ENTRY_BYTES] != index_header(salt, segment.base_offset):
            self._add_problem("index-wrong", "its header is not that of this segment")
            return []
        if whole != len(data) and segment.is_sealed:
            self._add_problem(
                "index-wrong", f"its size {len(data)} is not a multiple of an entry's size"
            )
        base = segment.base_offset
        entries = [
            IndexEntry(base + relative, position, time_ns)
            for relative, position, time_ns in INDEX_ENTRY.iter_unpack(
                memoryview(data)[INDEX_ENTRY_BYTES:whole]
            )
        ]
        if any(after[:2] <= before[:2] for before, after in pairwise(entries)):
            self._add_problem("index-wrong", "its entries do not ascend")
            return []
        self.entry_count = len(entries)
        return entries

    def _add_problem(self, kind: str, text: str) -> None:
        if not self._is_wrong:
            self._is_wrong = True
            self._problems.add(Problem(Level.HARMLESS, kind, self._segment.index_path, text))
        self._entries = iter(())
