from dataclasses import replace
from pathlib import Path

import pytest

from appendlog import CorruptRecordError, FileSystem, LogFollower
from appendlog.files.filesystem import FILE_MODE
from tests.appendlog.builders import flip
from tests.embedded.logs import BY_HAND, open_writer, payloads, read_on

SMALL_SEGMENTS = replace(BY_HAND, segment_bytes=600)


def append(writer_directory: Path, start: int, end: int) -> None:
    with open_writer(writer_directory, SMALL_SEGMENTS) as writer:
        for number in range(start, end):
            writer.append(b"%04d" % number)
            writer.flush()


def test_a_follower_of_a_log_that_is_not_there_yet_sees_it_appear(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path / "log")
    assert follower.read_batch(0, 1, 1).parts == []
    append(tmp_path / "log", 0, 5)
    assert follower.refresh()
    assert [each.offset for each in read_on(follower)] == list(range(5))
    follower.close()


def test_a_follower_reads_on_over_rolls(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, SMALL_SEGMENTS)
    follower = LogFollower(tmp_path)
    seen: list[bytes] = []
    for number in range(60):
        writer.append(b"%04d" % number)
        writer.sync()
        assert follower.refresh()
        seen += [each.payload for each in read_on(follower, len(seen))]
    assert seen == [b"%04d" % number for number in range(60)]
    assert len(list(tmp_path.glob("*.log"))) > 5
    follower.close()


class CountingFileSystem(FileSystem):
    """Counts what a look costs."""

    def __init__(self) -> None:
        self.opened = 0
        self.listed = 0

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        self.opened += 1
        return super().open(path, flags, mode)

    def listdir(self, path: Path) -> list[str]:
        self.listed += 1
        return super().listdir(path)


def test_a_look_at_a_log_without_news_opens_the_end_file_only(tmp_path: Path) -> None:
    append(tmp_path, 0, 40)
    filesystem = CountingFileSystem()
    follower = LogFollower(tmp_path, filesystem)
    filesystem.opened = filesystem.listed = 0
    assert not follower.refresh()
    assert (filesystem.opened, filesystem.listed) == (1, 0)
    follower.close()


def test_a_look_at_a_long_log_does_not_look_at_old_segments_again(tmp_path: Path) -> None:
    append(tmp_path, 0, 100)
    filesystem = CountingFileSystem()
    follower = LogFollower(tmp_path, filesystem)
    append(tmp_path, 100, 101)
    filesystem.opened = 0
    assert follower.refresh()
    assert filesystem.opened <= 4 < len(list(tmp_path.glob("*.log")))
    follower.close()


def test_a_follower_goes_on_behind_what_retention_removed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, SMALL_SEGMENTS)
    for number in range(60):
        writer.append(b"%04d" % number)
        writer.flush()
    writer.sync()
    follower = LogFollower(tmp_path)
    assert follower.log_start_offset == 0
    writer.remove_below(30)
    found = read_on(follower)
    assert found[0].offset == writer.log.log_start_offset > 0
    assert found[-1].offset == 59
    follower.close()


def test_damage_is_skipped_and_told(tmp_path: Path) -> None:
    append(tmp_path, 0, 40)
    segment = sorted(tmp_path.glob("*.log"))[1]
    flip(segment, 300)
    follower = LogFollower(tmp_path)
    found = [each.offset for each in read_on(follower)]
    assert 0 < 40 - len(found) < 10
    assert len(follower.damaged) == 1
    follower.close()
    with LogFollower(tmp_path, skip_damage=False) as strict, pytest.raises(CorruptRecordError):
        read_on(strict)


def test_a_time_leads_to_the_first_record_at_or_after_it(tmp_path: Path) -> None:
    append(tmp_path, 0, 50)
    with LogFollower(tmp_path) as follower:
        records = read_on(follower)
        for record in records[::7]:
            first = follower.first_offset_at(record.timestamp_ns)
            assert records[first].timestamp_ns == record.timestamp_ns
            assert first == 0 or records[first - 1].timestamp_ns < record.timestamp_ns
        assert follower.first_offset_at(records[-1].timestamp_ns + 1) == 50


def test_a_sealed_log_that_is_opened_again_is_followed_on(tmp_path: Path) -> None:
    append(tmp_path, 0, 5)
    follower = LogFollower(tmp_path)
    with open_writer(tmp_path) as writer:
        writer.roll()
        writer.append(b"0005")
    assert follower.refresh()
    assert [each.payload for each in read_on(follower, 5)] == [b"0005"]
    assert len(payloads(tmp_path)) == 6
    follower.close()
