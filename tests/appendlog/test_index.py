from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog import FileSystem, Log, LogOptions
from appendlog.files.filesystem import FILE_MODE
from appendlog.layout.format import U32_MAX
from appendlog.recovery.generations import newest_generations
from appendlog.repairing.index_rebuild import rebuild_index
from appendlog.segments.index import (
    READ_BYTES_MAX,
    ActiveIndex,
    IndexEntry,
    IndexTable,
    map_index,
)
from tests.appendlog.builders import IDENTITY, SALT, append, open_log

BASE = 1_000


def table_in(path: Path) -> IndexTable | None:
    return map_index(FileSystem(), path, SALT, BASE)


def an_index(entry_count: int) -> ActiveIndex:
    index = ActiveIndex(BASE, 10)
    for step in range(entry_count):
        index.add(BASE + step, 100 * (step + 1), 0)
    return index


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9_000)), max_size=60), st.integers(1))
def test_lookup_agrees_with_a_linear_scan_in_memory_and_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], stored_every: int
) -> None:
    path = tmp_path_factory.mktemp("index") / "i"
    index = ActiveIndex(BASE, 4096)
    memory = IndexTable.empty(BASE)
    entries: list[tuple[int, int, int]] = []
    offset, position = BASE, 100
    for number, (offset_step, position_step) in enumerate(steps, 1):
        if not entries or position - entries[-1][1] >= 4096:
            entries.append((offset, position, 7 * offset))
        index.add(offset, position, 7 * offset)
        if number % stored_every == 0:
            index.store(FileSystem(), path, SALT)
        offset, position = offset + offset_step, position + position_step
    index.store(FileSystem(), path, SALT)
    assert (len(index.tail), len(index)) == (0, len(entries))
    found = table_in(path)
    assert found is not None
    assert found.is_ordered(100, position)
    for entry in found:
        memory.append(entry)
    assert list(found) == list(memory) == entries
    for wanted in range(BASE - 1, offset + 2):
        before = [entry for entry in entries if entry[0] <= wanted]
        earlier = [entry for entry in entries if entry[2] < 7 * wanted]
        for table in (found, memory):
            assert table.at_or_before(wanted) == len(before) - 1
            assert table.before_time(7 * wanted) == len(earlier) - 1


@pytest.mark.parametrize("entries", [1, 3, 255, 256, 1000])
def test_a_short_file_that_is_read_has_the_entries_of_the_mapped_one(
    tmp_path: Path, entries: int
) -> None:
    path = tmp_path / "i"
    an_index(entries).store(FileSystem(), path, SALT)
    found = map_index(FileSystem(), path, SALT, BASE, READ_BYTES_MAX)
    mapped = table_in(path)
    assert found is not None
    assert mapped is not None
    assert list(found) == list(mapped)
    assert found.is_of_file == (path.stat().st_size > READ_BYTES_MAX)


def test_a_file_that_becomes_shorter_while_it_is_read_is_no_index(tmp_path: Path) -> None:
    class Longer(FileSystem):
        """A file that was longer when its size was asked."""

        def size(self, descriptor: int) -> int:
            return super().size(descriptor) + 16

    path = tmp_path / "i"
    an_index(4).store(FileSystem(), path, SALT)
    assert map_index(Longer(), path, SALT, BASE, READ_BYTES_MAX) is None


def test_what_does_not_fit_an_entry_is_left_out() -> None:
    index = ActiveIndex(BASE, 10)
    index.add(BASE + U32_MAX + 1, 100, 0)
    index.add(BASE, U32_MAX + 1, 0)
    assert len(index) == 0


def test_a_file_that_is_no_index_of_the_segment_is_not_mapped(tmp_path: Path) -> None:
    path = tmp_path / "i"
    assert table_in(path) is None
    an_index(4).store(FileSystem(), path, SALT)
    data = path.read_bytes()
    assert table_in(path) is not None
    assert map_index(FileSystem(), path, SALT, BASE + 1) is None
    assert map_index(FileSystem(), path, SALT + 1, BASE) is None
    for torn in (data[:-1], data[:5], b""):
        path.write_bytes(torn)
        assert table_in(path) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [((BASE + 1, 100, 0), (BASE, 200, 0)), ((BASE, 200, 0), (BASE + 1, 100, 0))],
)
def test_entries_that_do_not_ascend_are_noticed(
    first: tuple[int, int, int], second: tuple[int, int, int]
) -> None:
    table = IndexTable.empty(BASE)
    table.append(IndexEntry(*first))
    assert table.is_ordered(100, 201)
    table.append(IndexEntry(*second))
    assert not table.is_ordered(100, 201)


def test_entries_outside_the_chunks_are_noticed() -> None:
    table = an_index(3).tail
    assert table.is_ordered(100, 301)
    assert not table.is_ordered(101, 301)
    assert not table.is_ordered(100, 300)


def test_a_mapped_file_that_became_shorter_or_longer_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "i"
    index = an_index(3)
    index.store(FileSystem(), path, SALT)
    table = table_in(path)
    assert table is not None
    assert table.is_current
    index.add(BASE + 10, 2_000, 0)
    index.store(FileSystem(), path, SALT)
    assert not table.is_current
    path.write_bytes(b"")
    assert not table.is_current


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


def test_an_index_that_a_repair_makes_equals_the_written_one(tmp_path: Path) -> None:
    log, _ = Log.open(tmp_path, IDENTITY, LogOptions(segment_bytes=100_000))
    append(log, 0, 6_000, sync=False)
    log.close()
    for name in newest_generations(tmp_path, FileSystem()):
        path = tmp_path / name.index_name
        written = path.read_bytes()
        path.unlink()
        entries = rebuild_index(tmp_path, name, IDENTITY, FileSystem())
        assert entries == len(written) // 16 - 1 > 1
        assert path.read_bytes() == written


def test_an_index_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    class NoIndex(FileSystem):
        def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
            if ".index" in path.name:
                raise OSError(28, "no space")
            return super().open(path, flags, mode)

    log, _ = open_log(tmp_path, NoIndex(), segment_bytes=3_000)
    append(log, 0, 90)
    assert log.read(50, 1, 1).offsets == [50]
    log.close()
    assert list(tmp_path.glob("*.index*")) == []
