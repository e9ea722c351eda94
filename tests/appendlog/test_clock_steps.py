"""A clock that was wrong for a moment: what it stamped keeps nobody from going on.

Times step back where a segment begins, and nowhere else. Searches, ages, checks and compaction
judge each segment by its own times.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appendlog import Append, FileSystem, Log, LogOptions, LogReader, RetentionPolicy, encode_chunk
from appendlog.checking.log_check import check_log
from appendlog.files.descriptors import Descriptors
from appendlog.layout.segment_header import SegmentHeader, encode_segment_header
from appendlog.reclaim.retention import ends_within_total, forced_end, kept_settled, removal_end
from appendlog.reclaim.stream_retention import StreamBounds, stream_start
from appendlog.segments.append_clock import AHEAD_NS_MAX, AppendClock
from tests.appendlog.builders import IDENTITY, OPENED, SALT, message, open_log
from tests.appendlog.test_compaction import compact_all, random_settlement, records

SECOND_NS = 10**9
NOW_NS = 1_790_000_000 * SECOND_NS
YEAR_NS = 365 * 86_400 * SECOND_NS


class Clock:
    """The wall clock of a test: it stands still, and is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = NOW_NS
        monkeypatch.setattr("time.time_ns", lambda: self.now_ns)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that everything in the test goes by."""
    return Clock(monkeypatch)


def append_at(log: Log, *times_ns: int, sync: bool = True) -> None:
    """Append one record for each time."""
    for time_ns in times_ns:
        offset = log.log_end_offset
        log.append(
            Append(
                [encode_chunk([message(offset)], offset, None, time_ns, None, SALT)],
                offset + 1,
                sync=sync,
            )
        )


def aged_log(directory: Path, age_seconds: float) -> Log:
    options = LogOptions(segment_age_seconds=age_seconds, descriptors=Descriptors(4))
    OPENED.append(options.descriptors)
    return Log.open(directory, IDENTITY, options)[0]


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def kinds(directory: Path) -> list[str]:
    check = check_log(directory, IDENTITY, FileSystem(), is_live=False)
    return [problem.kind for problem in check.problems.kept]


# Appending.


def test_times_are_held_while_the_clock_is_set_back_a_little(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    times = AppendClock(tmp_path, NOW_NS)
    clock.now_ns = NOW_NS - AHEAD_NS_MAX
    assert times.now_ns() == NOW_NS
    clock.now_ns = NOW_NS + 1
    assert times.now_ns() == NOW_NS + 1
    assert caplog.records == []


def test_times_step_back_with_a_clock_that_is_set_back_far_and_it_is_told_once(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    times = AppendClock(tmp_path, NOW_NS + YEAR_NS)
    assert [times.now_ns(), times.now_ns()] == [NOW_NS, NOW_NS]
    (record,) = caplog.records
    assert f"path={tmp_path} seconds={YEAR_NS / 1e9:.3f}" in record.getMessage()


def test_a_segment_begins_where_times_step_back(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append_at(log, NOW_NS, NOW_NS + YEAR_NS, NOW_NS + 1, NOW_NS + 1, NOW_NS)
    assert bases(log) == [0, 2, 4]
    assert log.last_timestamp_ns == NOW_NS
    log.close()
    assert kinds(tmp_path) == []


def test_a_segment_begins_between_the_chunks_of_one_append(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    chunks = [
        encode_chunk([message(offset)], offset, None, time_ns, None, SALT)
        for offset, time_ns in enumerate([5, 9, 7, 8, 3])
    ]
    log.append(Append(chunks, 6, sync=True))
    assert bases(log) == [0, 2, 4]
    assert [each.last_timestamp_ns for each in log.summaries()] == [9, 8, 3]
    log.close()
    assert kinds(tmp_path) == []


@pytest.mark.parametrize("is_reopened", [False, True])
def test_times_step_back_into_an_empty_segment(tmp_path: Path, is_reopened: bool) -> None:
    log, _ = open_log(tmp_path)
    append_at(log, NOW_NS + YEAR_NS)
    log.roll()
    if is_reopened:
        log.close()
        log, _ = open_log(tmp_path)
    assert log.last_timestamp_ns == NOW_NS + YEAR_NS
    append_at(log, *range(NOW_NS, NOW_NS + 9))
    assert bases(log) == [0, 1]
    assert log.last_timestamp_ns == NOW_NS + 8
    assert log.first_offset_at(NOW_NS + 4) == 0
    assert log.first_offset_at(NOW_NS + YEAR_NS + 1) == 10
    log.roll()
    log.close()
    assert kinds(tmp_path) == []
    log, _ = open_log(tmp_path)
    assert log.last_timestamp_ns == NOW_NS + 8


def test_a_log_that_is_opened_again_still_says_that_times_stepped_back(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append_at(log, 1_000, 5_000, 2_000, 3_000)
    log.close()
    log, _ = open_log(tmp_path)
    append_at(log, 4_000)
    log.roll()
    append_at(log, 6_000)
    assert bases(log) == [0, 2, 5]
    assert [segment.summary.steps_back for segment in log.segments[:2]] == [False, True]
    assert log.first_offset_at(4_500) == 1
    log.close()


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_log_goes_on_with_the_time_of_its_last_segment(tmp_path: Path, is_cut_off: bool) -> None:
    """Whether the start knows its sums from `end`, or walks its chunks."""
    log, _ = open_log(tmp_path)
    append_at(log, NOW_NS + YEAR_NS, NOW_NS, NOW_NS + 3)
    log.close()
    if is_cut_off:
        (tmp_path / "end").unlink()
    log, report = open_log(tmp_path)
    assert (report.is_clean, log.last_timestamp_ns) == (True, NOW_NS + 3)
    append_at(log, NOW_NS + 3)
    assert bases(log) == [0, 1]
    log.close()
    assert kinds(tmp_path) == []


@pytest.mark.parametrize("seconds", [60, 61, 365 * 86_400])
def test_a_start_reports_a_last_time_that_lies_ahead(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, seconds: int
) -> None:
    log, _ = open_log(tmp_path)
    append_at(log, NOW_NS + seconds * SECOND_NS)
    log.close()
    log, report = open_log(tmp_path)
    is_ahead = seconds > 60
    assert report.ahead_ns == (seconds * SECOND_NS if is_ahead else 0)
    assert ["ahead of the clock" in each.getMessage() for each in caplog.records] == (
        [True] * is_ahead
    )
    assert report.is_clean
    append_at(log, NOW_NS)
    log.close()
    caplog.clear()
    assert open_log(tmp_path)[1].ahead_ns == 0
    assert caplog.records == []


# Checking.


def test_times_that_step_back_within_a_segment_are_an_error(tmp_path: Path) -> None:
    header = encode_segment_header(SegmentHeader(IDENTITY, 0, NOW_NS))
    chunks = [
        encode_chunk([message(offset)], offset, None, time_ns, None, SALT)
        for offset, time_ns in enumerate([5, 4, 6])
    ]
    (tmp_path / f"{0:020d}.log").write_bytes(b"".join([header, *chunks]))
    check = check_log(tmp_path, IDENTITY, FileSystem(), is_live=False)
    (problem,) = check.problems.kept
    assert (problem.kind, problem.position) == ("times-step-back", len(header) + len(chunks[0]))


# Places in time.


def stepping_log(directory: Path, chance: random.Random) -> Log:
    """Return a log whose times step back and forth, with empty segments and equal times."""
    log, _ = open_log(directory, segment_bytes=chance.choice([300, 900]))
    time_ns = 1_000
    for _ in range(chance.randint(1, 20)):
        time_ns = max(time_ns + chance.choice([0, 1, 20, 20, -200, 500]), 1)
        append_at(log, time_ns, sync=False)
        if chance.random() < 0.1:
            log.roll()
    log.append(Append([], log.log_end_offset, sync=True))
    return log


KINDS = ["as written", "opened again", "compacted", "cut", "sealed"]


@settings(max_examples=max(settings().max_examples // 4, 20))
@given(st.integers(0, 1 << 32), st.sampled_from(KINDS))
def test_both_places_of_a_moment_are_those_that_a_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str
) -> None:
    chance = random.Random(seed)
    directory = tmp_path_factory.mktemp("log")
    log = stepping_log(directory, chance)
    if kind == "opened again":
        log.close()
        log, _ = open_log(directory)
        append_at(log, chance.randint(1, 2_000))
    elif kind == "compacted":
        settlement = random_settlement(chance, log.log_end_offset)
        compact_all(log, settlement.ack_floor, settlement.ranges())
    elif kind == "sealed":
        # A crash before the next segment had its header: the last one is sealed.
        log.roll()
        log.close()
        if log.segments[-1].base_offset:
            log.segments[-1].path.unlink()
        (directory / "end").unlink()
        log, _ = open_log(directory)
        append_at(log, 2_000)
    elif kind == "cut":
        log.remove_settled(chance.randrange(log.log_end_offset + 1))
    times = {offset: time_ns for offset, (time_ns, _) in records(log).items()}
    end = log.log_end_offset
    with LogReader(directory) as reader:
        for moment in {each + step for each in times.values() for step in (0, 1)} | {1}:
            first = next((o for o, each in times.items() if each >= moment), end)
            assert log.first_offset_at(moment) == first
            assert reader.first_offset_at(moment) == first
            behind = reader.end_offset_before(moment)
            last = next((o for o in reversed(times) if times[o] < moment), None)
            # Between the two no record is left.
            assert [o for o in times if (-1 if last is None else last) < o < behind] == []
            assert last is None or last < behind


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_compacted_segment_still_says_that_times_step_back(
    tmp_path: Path, is_rewritten: bool
) -> None:
    log, _ = open_log(tmp_path)
    for times_ns in ((1_000, 1_001), (5, 6), (6, 7)):
        append_at(log, *times_ns)
        log.roll()
    append_at(log, 8)
    if is_rewritten:
        for segment in log.segments[:-1]:
            log.reclaim.compact(segment, [(segment.base_offset, segment.base_offset + 1)], 1 << 20)
        assert [segment.name.generation for segment in log.segments] == [1, 1, 1, 0]
    with LogReader(tmp_path) as reader:
        for find in (log.first_offset_at, reader.first_offset_at):
            assert find(900) == 0
            assert find(6) == 0
            assert find(2_000) == 7
    log.close()
    assert kinds(tmp_path) == []


def test_a_segment_of_which_nothing_is_left_is_as_it_should_be(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append_at(log, 1_000, 5, 6, 3, 4)
    log.roll()
    for segment in log.segments[1:-1]:
        log.reclaim.compact(segment, [], 1 << 20)
    assert [each.last_timestamp_ns for each in log.summaries()] == [1_000, 6, 4, 4]
    log.close()
    assert kinds(tmp_path) == []


def test_each_piece_of_a_log_has_times_that_ascend(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append_at(log, 100, 101, 102, 50, 51, 200, 201, 20, 21, 300)
    with LogReader(tmp_path) as reader:
        pieces = list(reader.segment_ranges(1, 9))
        assert pieces == [(1, 3), (3, 7), (7, 9)]
        for piece in pieces:
            found = [each for batch in reader.read(*piece) for each in batch.timestamps_ns]
            assert found == sorted(found)


class CountingFileSystem(FileSystem):
    """Notes which segments are opened."""

    def __init__(self) -> None:
        self.opened: set[str] = set()

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        """Note it, and open it."""
        self.opened.add(path.name)
        return super().open(path, flags, mode)


@pytest.mark.parametrize("search", [LogReader.first_offset_at, LogReader.end_offset_before])
def test_where_times_ascend_a_search_looks_at_few_segments(
    tmp_path: Path, search: Callable[[LogReader, int], int]
) -> None:
    log, _ = open_log(tmp_path, segment_bytes=200)
    append_at(log, *range(100, 164), sync=False)
    log.append(Append([], 64, sync=True))
    assert len(log.segments) == 64
    filesystem = CountingFileSystem()
    with LogReader(tmp_path, filesystem) as reader:
        assert search(reader, 140) == 40
    looked = {name for name in filesystem.opened if name.endswith(".log")}
    assert len(looked) <= 10


# Ages.


def wrong_for_a_moment(directory: Path, *, right_ns: tuple[int, ...]) -> Log:
    """Return a log whose first two segments lie a year ahead; those behind them are right."""
    log, _ = open_log(directory, segment_bytes=200)
    append_at(log, NOW_NS + YEAR_NS, NOW_NS + YEAR_NS + 1, *right_ns)
    assert bases(log) == list(range(2 + len(right_ns)))
    return log


def ends(log: Log, age_ns: int, now_ns: int) -> Iterator[int]:
    """Yield where each rule that goes by age ends."""
    segments, floor = log.segments, log.log_end_offset
    yield stream_start(segments, StreamBounds(max_age_ns=age_ns), now_ns)
    yield removal_end(segments, floor, RetentionPolicy(retain_for_ns=age_ns), now_ns)
    yield forced_end(segments, RetentionPolicy(force_after_ns=age_ns), now_ns)


def test_segments_ahead_of_the_clock_are_as_old_as_what_follows_them(
    tmp_path: Path, clock: Clock
) -> None:
    log = wrong_for_a_moment(
        tmp_path, right_ns=(NOW_NS, NOW_NS + 5 * SECOND_NS, NOW_NS + SECOND_NS)
    )
    age_ns = 5 * SECOND_NS
    assert set(ends(log, age_ns, NOW_NS + age_ns)) == {0}
    assert set(ends(log, age_ns, NOW_NS + age_ns + 1)) == {3}
    assert clock.now_ns == NOW_NS


def test_the_only_records_of_a_log_age_from_when_they_were_found_ahead(
    tmp_path: Path, clock: Clock
) -> None:
    clock.now_ns = NOW_NS + YEAR_NS
    log, _ = open_log(tmp_path)
    append_at(log, NOW_NS + YEAR_NS)
    log.roll()
    age_ns = 5 * SECOND_NS
    # The clock was set right while the log is open; nothing is appended any more.
    assert set(ends(log, age_ns, NOW_NS)) == {0}
    assert set(ends(log, age_ns, NOW_NS + age_ns)) == {0}
    assert set(ends(log, age_ns, NOW_NS + age_ns + 1)) == {1}
    log.close()
    # And while it is closed.
    clock.now_ns = NOW_NS + 100 * SECOND_NS
    log, _ = open_log(tmp_path)
    assert set(ends(log, age_ns, clock.now_ns + age_ns)) == {0}
    assert set(ends(log, age_ns, clock.now_ns + age_ns + 1)) == {1}


def test_what_was_written_before_the_clock_was_wrong_keeps_its_age(tmp_path: Path) -> None:
    """A clock set back for a moment, to 1970, makes nothing old that is not."""
    log, _ = open_log(tmp_path, segment_bytes=200)
    append_at(log, NOW_NS - SECOND_NS, NOW_NS, 1, 2, NOW_NS + 1, NOW_NS + 2)
    age_ns = 60 * SECOND_NS
    assert set(ends(log, age_ns, 3)) == {0}
    assert set(ends(log, age_ns, NOW_NS + 3)) == {0}
    assert set(ends(log, age_ns, NOW_NS + age_ns)) == {1}


def test_what_is_ahead_is_not_kept_longest_by_a_total(tmp_path: Path, clock: Clock) -> None:
    logs = {
        "wrong": wrong_for_a_moment(tmp_path / "wrong", right_ns=(NOW_NS, NOW_NS + 9, NOW_NS + 9)),
        "right": open_log(tmp_path / "right", segment_bytes=200)[0],
    }
    append_at(logs["right"], *range(NOW_NS + 1, NOW_NS + 6))
    keeps = RetentionPolicy(retain_for_ns=1 << 62)
    kept = {name: kept_settled(log.segments, 99, 0, keeps) for name, log in logs.items()}
    total = sum(each.size_bytes for segments, _ in kept.values() for each in segments)
    size = logs["wrong"].segments[0].size_bytes
    assert ends_within_total(kept, total - 2 * size, clock.now_ns) == {"wrong": 2}


def test_an_idle_segment_ahead_of_the_clock_is_sealed_if_segments_have_an_age(
    tmp_path: Path,
) -> None:
    log = aged_log(tmp_path / "aged", 3600)
    append_at(log, NOW_NS + AHEAD_NS_MAX)
    assert not log.is_roll_due(NOW_NS, 0)
    assert log.is_roll_due(NOW_NS - 1, 0)
    log.roll()
    assert not log.is_roll_due(NOW_NS - 1, 0)
    ageless = aged_log(tmp_path / "ageless", 0)
    append_at(ageless, NOW_NS + YEAR_NS)
    assert not ageless.is_roll_due(NOW_NS, 0)


def test_an_emptied_segment_ahead_of_the_clock_is_sealed_though_it_is_kept_for_its_age(
    tmp_path: Path,
) -> None:
    log, _ = open_log(tmp_path, segment_bytes=200)
    append_at(log, NOW_NS + YEAR_NS, NOW_NS + YEAR_NS + 1)
    keep_since_ns = NOW_NS - SECOND_NS
    assert log.is_roll_due(NOW_NS, 2, keep_since_ns)
    assert not log.is_roll_due(NOW_NS + YEAR_NS, 2, keep_since_ns)
    log.roll()
    keeps = RetentionPolicy(retain_for_ns=SECOND_NS)
    assert removal_end(log.segments, 2, keeps, NOW_NS) == 0
    assert removal_end(log.segments, 2, keeps, NOW_NS + SECOND_NS + 1) == 2
