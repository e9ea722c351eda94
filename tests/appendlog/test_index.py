import os
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog import FileSystem
from appendlog.layout.format import U32_MAX
from appendlog.segments.index import ActiveIndex, lookup_in_file, read_index
from tests.appendlog.builders import SALT, append, open_log

BASE = 1_000


def stored(path: Path, index: ActiveIndex) -> None:
    filesystem = FileSystem()
    descriptor = filesystem.open(path, os.O_RDWR | os.O_CREAT)
    index.store(filesystem, descriptor, SALT)
    filesystem.close(descriptor)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9_000)), max_size=60))
def test_lookup_agrees_with_a_linear_scan_in_memory_and_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("index") / "i"
    index = ActiveIndex(BASE, 4096)
    entries: list[tuple[int, int]] = []
    offset, position = BASE, 100
    for offset_step, position_step in steps:
        if not entries or position - entries[-1][1] >= 4096:
            entries.append((offset, position))
        index.add(offset, position, offset)
        if len(index) == 2 and index.unstored_count == 2:
            stored(path, index)
        offset, position = offset + offset_step, position + position_step
    stored(path, index)
    assert index.unstored_count == 0
    found = read_index(FileSystem(), path, SALT, BASE, position)
    assert found is not None
    assert [(entry.offset, entry.position) for entry in found] == entries
    for wanted in range(BASE - 1, offset + 2):
        at = bisect_right([entry[0] for entry in entries], wanted)
        position_wanted = entries[at - 1][1] if at else None
        assert index.lookup(wanted) == position_wanted
        assert lookup_in_file(FileSystem(), path, SALT, BASE, wanted) == position_wanted


def test_what_does_not_fit_an_entry_is_left_out() -> None:
    index = ActiveIndex(BASE, 10)
    index.add(BASE + U32_MAX + 1, 100, 0)
    index.add(BASE, U32_MAX + 1, 0)
    assert len(index) == 0


def test_an_index_that_cannot_be_right_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "i"
    index = ActiveIndex(BASE, 10)
    for step in range(4):
        index.add(BASE + step, 100 * (step + 1), 0)
    stored(path, index)
    data = path.read_bytes()
    assert read_index(FileSystem(), path, SALT, BASE, 401) is not None
    assert read_index(FileSystem(), path, SALT, BASE, 400) is None
    assert read_index(FileSystem(), path, SALT, BASE + 1, 401) is None
    path.write_bytes(data[:-1])
    assert read_index(FileSystem(), path, SALT, BASE, 401) is None
    path.write_bytes(data[:32] + data[48:64] + data[32:48])
    assert read_index(FileSystem(), path, SALT, BASE, 401) is None
    path.unlink()
    assert read_index(FileSystem(), path, SALT, BASE, 401) is None


def test_an_index_that_shrinks_while_it_is_read_gives_no_position(tmp_path: Path) -> None:
    class Shrunk(FileSystem):
        def size(self, descriptor: int) -> int:
            return super().size(descriptor) + 1_000

    path = tmp_path / "i"
    index = ActiveIndex(BASE, 10)
    index.add(BASE, 100, 0)
    stored(path, index)
    assert lookup_in_file(Shrunk(), path, SALT, BASE, BASE + 5) is None


def test_a_rebuilt_index_equals_the_written_one(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 300)
    log.close()
    (path,) = tmp_path.glob("*.index")
    written = path.read_bytes()
    path.unlink()
    log, _ = open_log(tmp_path)
    log.close()
    assert path.read_bytes() == written


def test_an_index_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    class NoIndex(FileSystem):
        def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
            if path.suffix == ".index":
                raise OSError(28, "no space")
            return super().open(path, flags, mode)

    log, _ = open_log(tmp_path, NoIndex(), segment_bytes=3_000)
    append(log, 0, 90)
    assert log.read(50, 1, 1).offsets == [50]
    log.close()
    assert list(tmp_path.glob("*.index")) == []
