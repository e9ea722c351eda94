"""Page cache is let go of when nobody will read it: settled, on the disk, whole pages."""

import errno
import mmap
import random
from pathlib import Path

import pytest

from appendlog import Append, FileSystem, Log, encode_chunk
from appendlog.segments.written_pages import STEP_BYTES, WrittenPages
from tests.appendlog.builders import SALT, message, open_log
from tests.faults.faulty_filesystem import FaultyFileSystem

CHUNK_COUNT = 8
BODY_BYTES = STEP_BYTES // 2


class AdvisedFileSystem(FileSystem):
    """Remembers what the kernel was told that it need not keep."""

    def __init__(self) -> None:
        self.advised: list[tuple[int, int]] = []

    def wont_need(self, descriptor: int, position: int, size: int) -> None:
        super().wont_need(descriptor, position, size)
        self.advised.append((position, position + size))


def append_large(log: Log, offset: int, settled_floor: int, *, sync: bool = True) -> None:
    """Append one message of half a step."""
    chunk = encode_chunk([message(offset, BODY_BYTES)], offset, None, 1_000, None, SALT)
    log.append(Append([chunk], offset + 1, sync=sync, settled_floor=settled_floor))


def test_what_is_settled_is_let_go_of_once_in_whole_pages(tmp_path: Path) -> None:
    filesystem = AdvisedFileSystem()
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=1 << 30)
    for offset in range(CHUNK_COUNT):
        append_large(log, offset, settled_floor=offset)

    starts = [start for start, _ in filesystem.advised]
    ends = [end for _, end in filesystem.advised]
    assert starts == [0, *ends[:-1]]
    assert all(end % mmap.PAGESIZE == 0 for end in ends)
    assert 2 * STEP_BYTES < ends[-1] < log.size_bytes - BODY_BYTES
    assert [log.read(n, 1, 1).messages for n in range(CHUNK_COUNT)] == [
        [message(n, BODY_BYTES)] for n in range(CHUNK_COUNT)
    ]


def test_what_a_consumer_may_come_for_stays(tmp_path: Path) -> None:
    filesystem = AdvisedFileSystem()
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=1 << 30)
    for offset in range(CHUNK_COUNT):
        append_large(log, offset, settled_floor=0)
    assert filesystem.advised == []

    append_large(log, CHUNK_COUNT, settled_floor=CHUNK_COUNT // 2)
    ((start, end),) = filesystem.advised
    assert start == 0
    assert CHUNK_COUNT // 2 - 2 < end / BODY_BYTES <= CHUNK_COUNT // 2 + 1


def test_what_is_not_on_the_disk_yet_is_not_written_for_this(tmp_path: Path) -> None:
    filesystem = AdvisedFileSystem()
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=1 << 30)
    for offset in range(CHUNK_COUNT):
        append_large(log, offset, settled_floor=offset, sync=False)
    assert filesystem.advised == []


def test_each_segment_is_let_go_of_from_its_own_start(tmp_path: Path) -> None:
    filesystem = AdvisedFileSystem()
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=4 * STEP_BYTES)
    for offset in range(4 * CHUNK_COUNT):
        append_large(log, offset, settled_floor=offset)
    assert [start for start, _ in filesystem.advised].count(0) == len(log.segments) > 3
    assert max(end for _, end in filesystem.advised) <= 4 * STEP_BYTES


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EINVAL, errno.EIO])
def test_a_file_system_that_takes_no_advice_keeps_its_pages(tmp_path: Path, error: int) -> None:
    class Refusing(FaultyFileSystem):
        refused = 0

        def wont_need(self, descriptor: int, position: int, size: int) -> None:
            self.refused += 1
            raise OSError(error, "no advice")

    filesystem = Refusing(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=1 << 30)
    for offset in range(CHUNK_COUNT):
        append_large(log, offset, settled_floor=offset)
    assert filesystem.refused > 1
    assert log.failed is None
    assert log.recovery_point == CHUNK_COUNT


@pytest.mark.parametrize("seed", range(5))
def test_a_look_at_positions_that_are_not_due_would_find_nothing(seed: int) -> None:
    chance = random.Random(seed)
    always, when_due = WrittenPages(), WrittenPages()
    position = floor = looks = 0
    for end_offset in range(1, 400):
        position += chance.randrange(STEP_BYTES // 8)
        floor = max(floor, end_offset - chance.randrange(60))
        expected = always.unneeded(end_offset, position, floor)
        if position >= when_due.due_position:
            looks += 1
            assert when_due.unneeded(end_offset, position, floor) == expected
        else:
            assert expected[0] == expected[1]
    assert 0 < looks < 399
