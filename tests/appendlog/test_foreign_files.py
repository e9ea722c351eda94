"""Files with a segment's name that are none: they hide nothing, and nothing happens to them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from appendlog import Append, FileSystem, Log, LogIdentity, LogOptions, LogReader, encode_chunk
from appendlog.checking.log_check import LogCheck, check_log
from appendlog.embedded.follower import LogFollower
from appendlog.errors import LogFailedError, MisplacedSegmentError
from appendlog.files.descriptors import Descriptors
from appendlog.files.dry_run import DryRunFileSystem
from appendlog.log_statistics import stored_statistics
from appendlog.reclaim.compaction import CompactionAbandonedError
from appendlog.recovery.own_segments import own_segments
from tests.appendlog.builders import (
    IDENTITY,
    a_log,
    append,
    expected,
    messages,
    open_log,
    read_all,
)
from tests.appendlog.test_compaction import compact_all

END = 30
SEGMENT_BYTES = 700
OTHER = LogIdentity("/", "others", UUID("0f14e45f-ceea-467f-a4d6-0b1c2d3e4f50"))

Puts = Callable[[Path], list[Path]]
"""Puts files into a log's directory and returns them."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 30 messages, in segments of six, the last one open."""
    directory = tmp_path / "log"
    assert len(a_log(directory, END, SEGMENT_BYTES)) == 5
    return directory


def others_segment(directory: Path) -> Path:
    """Return a segment of another log, sealed, with offsets 12 to 18."""
    there = directory.parent / "other"
    options = LogOptions(segment_bytes=SEGMENT_BYTES, descriptors=Descriptors(1))
    other, _ = Log.open(there, OTHER, options)
    for start in range(0, END, 3):
        batch = messages(start, start + 3)
        other.append(
            Append([encode_chunk(batch, start, None, 1, None, OTHER.salt)], start + 3, sync=True)
        )
    other.close()
    options.descriptors.close()
    return there / "00000000000000000012.log"


def put(directory: Path, *, content: bytes, name: str) -> list[Path]:
    path = directory / name
    assert not path.exists()
    path.write_bytes(content)
    path.with_suffix(".index").write_bytes(b"of nobody")
    return [path, path.with_suffix(".index")]


def name_of(offset: int, generation: int = 0) -> str:
    return f"{offset:020d}" + (f"-{generation:010d}" if generation else "") + ".log"


def foreign(offset: int, generation: int = 0) -> Puts:
    def puts(directory: Path) -> list[Path]:
        content = others_segment(directory).read_bytes()
        return put(directory, content=content, name=name_of(offset, generation))

    return puts


def copy_of(source: int, offset: int, generation: int = 0) -> Puts:
    def puts(directory: Path) -> list[Path]:
        content = (directory / name_of(source)).read_bytes()
        return put(directory, content=content, name=name_of(offset, generation))

    return puts


def rubbish(offset: int, content: bytes) -> Puts:
    return lambda directory: put(directory, content=content, name=name_of(offset))


def a_directory(offset: int) -> Puts:
    def puts(directory: Path) -> list[Path]:
        path = directory / name_of(offset)
        path.mkdir()
        (path / "notes").write_bytes(b"notes")
        return [path / "notes"]

    return puts


def link_to_foreign(offset: int) -> Puts:
    def puts(directory: Path) -> list[Path]:
        path = directory / name_of(offset)
        path.symlink_to(others_segment(directory))
        return [path]

    return puts


FOREIGN_FILES: dict[str, Puts] = {
    "foreign in a sealed segment": foreign(9),
    "foreign in the last segment": foreign(27),
    "foreign behind the end": foreign(31),
    "foreign where the log ends": foreign(END),
    "foreign far behind the end": foreign(9_999),
    "foreign as a newer generation": foreign(12, 1),
    "foreign as a newer generation of the last": foreign(24, 3),
    "own under another number": copy_of(12, 9),
    "own under a lower number in the first": copy_of(12, 3),
    "own under a higher number": copy_of(12, 27),
    "own under the number where the log ends": copy_of(12, END),
    "own far behind the end": copy_of(24, 9_999),
    "own as a newer generation": copy_of(12, 12, 1),
    "own as a newer generation of another": copy_of(12, 18, 2),
    "empty in a sealed segment": rubbish(9, b""),
    "empty in the last segment": rubbish(27, b""),
    "empty behind the end": rubbish(31, b""),
    "empty far behind the end": rubbish(9_999, b""),
    "zeros in a sealed segment": rubbish(9, bytes(5_000)),
    "zeros far behind the end": rubbish(9_999, bytes(5_000)),
    "half a header in a sealed segment": rubbish(15, b"AQLS" + bytes(20)),
    "a directory in a sealed segment": a_directory(9),
    "a directory far behind the end": a_directory(9_999),
    "a link to a foreign one": link_to_foreign(9),
}


@pytest.fixture(params=list(FOREIGN_FILES.values()), ids=list(FOREIGN_FILES))
def strange(request: pytest.FixtureRequest, log: Path) -> tuple[Path, dict[Path, bytes]]:
    """A log with a foreign file, and the files of that."""
    puts: Puts = request.param
    return log, {path: path.read_bytes() for path in puts(log)}


def is_untouched(files: dict[Path, bytes]) -> bool:
    return all(path.exists() and path.read_bytes() == content for path, content in files.items())


def read_by_reader(directory: Path) -> dict[int, bytes]:
    """Return what a reader in another process gets, which stops at any damage."""
    with LogReader(directory) as reader:
        assert (reader.log_start_offset, reader.log_end_offset) == (0, END)
        return {
            offset: message
            for batch in reader.read()
            for offset, message in zip(batch.offsets, batch.messages, strict=True)
        }


def read_by_follower(directory: Path) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    with LogFollower(directory, skip_damage=False) as follower:
        while batch := follower.read_batch(len(found), 7, 1 << 20).messages:
            found.update(zip(range(len(found), END), batch, strict=False))
    return found


def check(directory: Path) -> LogCheck:
    return check_log(directory, IDENTITY, FileSystem(), is_live=False)


def test_a_start_loses_nothing_for_a_foreign_file_reports_it_and_leaves_it_alone(
    strange: tuple[Path, dict[Path, bytes]],
) -> None:
    directory, files = strange
    names = set(os.listdir(directory))  # noqa: PTH208
    with DryRunFileSystem() as filesystem:
        _, tried = open_log(directory, filesystem, SEGMENT_BYTES)
    for _ in range(2):
        log, report = open_log(directory, segment_bytes=SEGMENT_BYTES)
        assert report.lost == []
        assert (report.damaged_chunks, report.cut_bytes) == (0, 0)
        assert len(report.foreign_files) == 1
        assert report.foreign_files == tried.foreign_files
        assert report.is_damaged
        assert log.log_end_offset == END
        assert read_all(log) == expected(0, END)
        log.close()
        assert set(os.listdir(directory)) == names  # noqa: PTH208
        assert is_untouched(files)


def test_the_log_goes_on_beside_a_foreign_file(strange: tuple[Path, dict[Path, bytes]]) -> None:
    directory, files = strange
    log, _ = open_log(directory, segment_bytes=SEGMENT_BYTES)
    append(log, END, 60)
    log.roll()
    assert read_all(log) == expected(0, 60)
    log.close()
    log, report = open_log(directory, segment_bytes=SEGMENT_BYTES)
    assert (report.lost, report.damaged_chunks) == ([], 0)
    append(log, 60, 66)
    assert read_all(log) == expected(0, 66)
    log.close()
    assert is_untouched(files)


def test_compaction_replaces_no_foreign_file(log: Path) -> None:
    files = {path: path.read_bytes() for path in foreign(12, 1)(log)}
    opened, _ = open_log(log, segment_bytes=SEGMENT_BYTES)
    with pytest.raises(CompactionAbandonedError, match="is there already"):
        compact_all(opened, 0, [(0, 5), (12, 17)])
    assert [segment.name.generation for segment in opened.segments][2:] == [0, 0, 0]
    assert is_untouched(files)
    assert read_all(opened, 12) == expected(12, END)
    opened.close()


def test_readers_find_all_of_a_log_beside_a_foreign_file(
    strange: tuple[Path, dict[Path, bytes]],
) -> None:
    directory, files = strange
    assert read_by_reader(directory) == expected(0, END)
    assert read_by_follower(directory) == expected(0, END)
    for start in range(0, END, 2):
        with LogReader(directory) as reader:
            assert [
                offset for batch in reader.read(start, start + 2) for offset in batch.offsets
            ] == [
                start,
                start + 1,
            ]
    assert is_untouched(files)


def test_readers_find_all_of_it_without_the_end_file(
    strange: tuple[Path, dict[Path, bytes]],
) -> None:
    directory, _ = strange
    (directory / "end").unlink()
    by_name = directory.rename(directory.with_name(str(IDENTITY.incarnation)))
    assert read_by_reader(by_name) == expected(0, END)
    assert check(by_name).log_end_offset == END
    log, report = open_log(by_name, segment_bytes=SEGMENT_BYTES)
    assert (report.lost, log.log_end_offset) == ([], END)
    log.close()


def test_a_check_finds_the_foreign_file_and_nothing_else(
    strange: tuple[Path, dict[Path, bytes]],
) -> None:
    directory, files = strange
    found = check(directory)
    assert [problem.kind for problem in found.problems.kept] == ["foreign-segment"]
    assert (found.record_count, found.log_end_offset) == (END, END)
    statistics = stored_statistics(directory, IDENTITY, FileSystem())
    assert (statistics.records, statistics.segments, statistics.last_offset) == (END, 5, END - 1)
    assert is_untouched(files)


@pytest.mark.parametrize(("old", "new"), [(12, 13), (12, 9), (0, 2), (24, 25), (24, 9_999)])
def test_a_segment_that_was_renamed_is_refused_by_a_start_until_it_has_its_name(
    log: Path, old: int, new: int
) -> None:
    (log / name_of(old)).rename(log / name_of(new))
    content = {path: path.read_bytes() for path in log.iterdir()}
    with pytest.raises(MisplacedSegmentError, match=f"its header says {name_of(old)}"):
        open_log(log, segment_bytes=SEGMENT_BYTES)
    assert {path: path.read_bytes() for path in log.iterdir()} == content
    assert "misplaced-segment" in [problem.kind for problem in check(log).problems.kept]
    (log / name_of(new)).rename(log / name_of(old))
    opened, report = open_log(log, segment_bytes=SEGMENT_BYTES)
    assert report.is_clean
    assert read_all(opened) == expected(0, END)


def test_a_renamed_segment_whose_messages_are_settled_stops_nobody(log: Path) -> None:
    (log / name_of(0)).rename(log / name_of(2))
    opened, report = open_log(log, segment_bytes=SEGMENT_BYTES, settled_floor=6)
    assert (report.lost, len(report.foreign_files)) == ([], 1)
    assert read_all(opened, 6) == expected(6, END)


def test_a_link_to_an_own_segment_is_that_segment(log: Path, tmp_path: Path) -> None:
    """As when a disk was full and somebody moved a file to another."""
    for offset in (0, 12, 24):
        path = log / name_of(offset)
        path.symlink_to(shutil.move(path, tmp_path / path.name))
    opened, report = open_log(log, segment_bytes=SEGMENT_BYTES)
    assert report.is_clean
    assert read_all(opened) == expected(0, END)
    opened.close()
    assert check(log).problems.kept == []
    assert read_by_reader(log) == expected(0, END)


def test_an_older_segment_that_was_put_back_inside_a_newer_one(log: Path, tmp_path: Path) -> None:
    """Of a back-up: the same offsets, cut otherwise; its header is right."""
    a_log(tmp_path / "old", 27, 500)
    (old,) = (path for path in (tmp_path / "old").glob("*.log") if path.name == name_of(15))
    shutil.copy(old, log)
    opened, report = open_log(log, segment_bytes=SEGMENT_BYTES)
    assert report.lost == []
    assert report.foreign_files == [f"{name_of(15)}: {name_of(12)} holds its offsets"]
    assert read_all(opened) == expected(0, END)
    opened.close()
    assert read_by_reader(log) == expected(0, END)
    assert [problem.kind for problem in check(log).problems.kept] == ["foreign-segment"]


def test_the_files_that_were_looked_at_are_kept_in_the_set_that_was_given(log: Path) -> None:
    """An empty set counted as none: each start left a file of each log open for ever."""
    descriptors = Descriptors(4)
    own = own_segments(log, IDENTITY, FileSystem(), descriptors, os.O_RDWR)
    assert own.names
    assert len(descriptors) > 0
    descriptors.close()


def test_a_log_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    check = check_log(tmp_path / "log", IDENTITY, FileSystem(), is_live=False)
    (problem,) = check.problems.kept
    assert (problem.kind, problem.path) == ("unreadable-log", tmp_path / "log")
    assert "Not a directory" in problem.text


def test_a_directory_below_a_file_or_a_loop_of_links_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "q").write_bytes(b"a note")
    (tmp_path / "loop").symlink_to("loop")
    for directory in (tmp_path / "q" / "log", tmp_path / "loop", tmp_path / "missing"):
        assert own_segments(directory, IDENTITY, FileSystem()).listed is None
    log, report = open_log(tmp_path / "q" / "log")
    assert (log.log_end_offset, report.segment_count) == (0, 0)


def test_a_file_in_place_of_the_directory_is_no_empty_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a note")
    with pytest.raises(LogFailedError, match="Not a directory"):
        open_log(tmp_path / "log")
