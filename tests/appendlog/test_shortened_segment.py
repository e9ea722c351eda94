"""A segment that was shortened under a log that is open: reads end where the file ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appendlog import FileSystem, Log
from appendlog.segments.scan import WINDOW_BYTES, SegmentScan
from tests.appendlog.builders import SALT, append, chunk, expected, open_log, read_all

READS_MAX = 100
"""Far more than any operation of these tests needs, and far fewer than a file has bytes."""
COUNT = 600
SEGMENT_BYTES = 16 * 1024


class CountedReads(FileSystem):
    """Counts reads of files; too many of them fail.

    Attributes:
        reads: How many there were since `bounded` began.
    """

    def __init__(self) -> None:
        self.reads = 0

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Let what happens read a hundred times at most."""
        self.reads = 0
        yield

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        self.reads += 1
        assert self.reads < READS_MAX, "an operation reads on and on"
        return super().pread(descriptor, size, position)


@pytest.fixture
def filesystem() -> CountedReads:
    return CountedReads()


@pytest.fixture
def log(tmp_path: Path, filesystem: CountedReads) -> Iterator[Log]:
    """Give a log of several segments that are sealed."""
    with filesystem.bounded():
        log, _ = open_log(tmp_path / "log", filesystem, segment_bytes=SEGMENT_BYTES)
    append(log, 0, COUNT, sync=False)
    assert len(log.segments) > 2
    yield log
    log.close()


OPERATIONS: dict[str, Callable[[Log], object]] = {
    "reads": lambda log: log.read(0, 1 << 20, COUNT),
    "windows": lambda log: log.read_window(0, COUNT),
    "search for a time": lambda log: log.first_offset_at(1_000 + 60),
    "transactions": lambda log: log.transaction_counts(0),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("has_index", [True, False])
def test_no_operation_searches_behind_the_end_of_the_file(
    log: Log, filesystem: CountedReads, operation: str, has_index: bool
) -> None:
    first = log.segments[0]
    os.truncate(first.path, first.data_bytes // 2 + 7)
    if not has_index:
        first.index_path.unlink()
    with filesystem.bounded():
        OPERATIONS[operation](log)


def test_all_messages_but_those_of_the_missing_end_are_read(
    log: Log, filesystem: CountedReads
) -> None:
    first, second = log.segments[:2]
    os.truncate(first.path, first.data_bytes // 2 + 7)
    with filesystem.bounded():
        found = read_all(log)
    lost = sorted(expected(0, COUNT).keys() - found.keys())
    # One piece, at the end of the segment.
    assert lost == list(range(lost[0], second.base_offset))
    assert 0 < len(lost) < second.base_offset
    assert {offset: found[offset] for offset in found} == {
        offset: body for offset, body in expected(0, COUNT).items() if offset not in set(lost)
    }
    assert log.damaged_chunks


def test_a_search_for_a_chunk_ends_with_the_file(tmp_path: Path, filesystem: CountedReads) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"no chunk " * 100)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        scan = SegmentScan(filesystem, descriptor, 3 * WINDOW_BYTES, SALT)
        assert scan.find_chunk(0, 0) is None
        assert filesystem.reads < 4
    finally:
        os.close(descriptor)


def test_what_is_there_of_a_shortened_file_is_found(
    tmp_path: Path, filesystem: CountedReads
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"no chunk" + chunk(0, 3) + chunk(3, 6)[:-1])
    descriptor = os.open(path, os.O_RDONLY)
    try:
        scan = SegmentScan(filesystem, descriptor, 3 * WINDOW_BYTES, SALT)
        assert scan.find_chunk(0, 0) == len(b"no chunk")
        assert scan.find_chunk(len(b"no chunk") + len(chunk(0, 3)) - 1, 3) is None
    finally:
        os.close(descriptor)
