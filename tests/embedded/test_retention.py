"""Each key of retention has an effect, and what a group has not read stays."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from appendlog.reclaim.leases import HeldLease
from offsets import (
    Consumer,
    GroupLockedError,
    LogRoot,
    list_groups,
    remove_group,
)
from tests.embedded.consumers import consumer, drain, fill
from tests.embedded.logs import BY_HAND
from tests.embedded.retention import COUNT, opened, real_time_ns, start_of


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what moves the clock on."""
    moved = itertools.count()

    def move(seconds: float) -> None:
        next(moved)
        monkeypatch.setattr("time.time_ns", lambda: real_time_ns() + int(seconds * 1e9))

    return move


def segments_of(root: LogRoot, name: str = "events") -> int:
    return len(root.log(name).log.segments)


def test_without_bounds_everything_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as root:
        fill(root, "events", COUNT)
        assert root.clean_up().logs == {}
        assert root.clean_up(force=True).logs == {}
        assert start_of(root) == 0


def test_what_is_too_old_goes(tmp_path: Path, later: Callable[[float], None]) -> None:
    with opened(tmp_path, retain_seconds=10.0) as root:
        fill(root, "events", COUNT)
        assert root.clean_up().logs == {}
        later(9.0)
        fill(root, "events", COUNT)
        segments = segments_of(root)
        later(11.0)
        done = root.clean_up().logs["events"]
        assert done.removed_records == start_of(root)
        assert COUNT - 10 < start_of(root) <= COUNT
        assert done.removed_segments == segments - segments_of(root)
        assert done.removed_bytes > 600
        assert (done.held_back_segments, done.held_by) == (0, ())


def test_what_is_too_much_for_one_log_goes(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=3_000) as root:
        fill(root, "events", COUNT)
        fill(root, "small", 5)
        before = root.log("events").log.size_bytes
        done = root.clean_up()
        after = root.log("events").log.size_bytes
        assert list(done.logs) == ["events"]
        assert before - after == done.removed_bytes > 0
        assert 2_000 < after <= 3_000 + 600
        assert start_of(root, "small") == 0


def test_what_is_too_much_for_all_logs_goes_the_oldest_first(tmp_path: Path) -> None:
    with opened(tmp_path, retain_total_bytes=25_000) as root:
        fill(root, "old", COUNT)
        fill(root, "new", COUNT)
        done = root.clean_up()
        sizes = [root.log(name).log.size_bytes for name in ("old", "new")]
        assert 24_000 < sum(sizes) <= 25_000
        assert done.removed_bytes > 0
        assert start_of(root, "old") > 0 == start_of(root, "new")


def test_the_newest_segments_stay_whatever_the_bounds_say(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=1, segments_min=4) as root:
        fill(root, "events", COUNT)
        root.clean_up()
        assert segments_of(root) == 4


def test_what_a_group_has_not_read_is_held_back_and_told(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=1) as root:
        fill(root, "events", COUNT)
        with consumer(root, "fast") as fast, consumer(root, "slow") as slow:
            fast.ack_range("events", 0, COUNT)
            slow.ack_range("events", 0, 50)
            slow.ack_range("events", 60, COUNT)
            for each in (fast, slow):
                each.sync()
            done = root.clean_up().logs["events"]
            assert 40 < start_of(root) <= 50
            assert done.removed_segments > 0
            assert done.held_back_segments == segments_of(root) - 1 > 0
            assert done.held_back_bytes > 600
            assert done.held_by == ("slow",)
            assert drain(slow) == {"events": list(range(50, 60))}
            assert slow.statistics().dropped_total == 0


def test_a_group_holds_from_the_moment_it_is_opened(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=1) as root:
        fill(root, "events", COUNT)
        with consumer(root):
            assert root.clean_up().logs["events"].held_by == ("g",)
            assert start_of(root) == 0


def test_a_clean_up_by_force_does_not_wait_for_groups(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=1) as root:
        fill(root, "events", COUNT)
        with consumer(root) as reader:
            done = root.clean_up(force=True).logs["events"]
            assert (segments_of(root), done.held_back_segments) == (1, 0)
            drain(reader)
            assert reader.statistics().dropped_total == start_of(root) > 90


def test_what_nobody_has_read_goes_too_where_it_is_not_protected(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=3_000, protects_unconsumed=False) as root:
        fill(root, "events", COUNT)
        with consumer(root) as reader:
            root.clean_up()
            assert start_of(root) > 0
            assert drain(reader) == {"events": list(range(start_of(root), COUNT))}


def test_what_nobody_has_read_goes_in_the_end(
    tmp_path: Path, later: Callable[[float], None]
) -> None:
    with opened(tmp_path, retain_seconds=10.0, force_after_seconds=100.0) as root:
        fill(root, "events", COUNT)
        consumer(root).close()
        later(50.0)
        assert root.clean_up().logs["events"].held_by == ("g",)
        assert start_of(root) == 0
        later(101.0)
        assert root.clean_up().removed_records > 90


def test_a_segment_is_sealed_for_its_age_so_that_it_can_go(
    tmp_path: Path, later: Callable[[float], None]
) -> None:
    with opened(tmp_path, retain_seconds=10.0, segment_age_seconds=5.0) as root:
        fill(root, "events", 3)
        assert segments_of(root) == 1
        later(20.0)
        assert root.clean_up().removed_records == 3
        assert root.append("events", b"3") == 3


def test_a_thread_removes_what_can_go(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=1, retention_interval_seconds=0.005) as root:
        fill(root, "events", COUNT)
        while segments_of(root) > 1:
            time.sleep(0.005)


def test_logs_that_were_not_opened_are_cleaned_up_too(tmp_path: Path) -> None:
    with opened(tmp_path) as root:
        fill(root, "events", COUNT)
    with opened(tmp_path, retain_bytes=1) as root:
        assert root.clean_up().removed_records > 90
    with opened(tmp_path) as root:
        assert start_of(root) > 90
        assert root.append("events", b"") == COUNT


def test_a_group_that_is_removed_holds_nothing_any_more(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=1) as root:
        fill(root, "events", COUNT)
        fill(root, "other", 1)
        with consumer(root) as reader:
            reader.ack_range("events", 0, 7)
            reader.sync()
            places = [(each.group, each.log, each.committed) for each in list_groups(tmp_path)]
            assert places == [("g", "events", 7), ("g", "other", None)]
            with pytest.raises(GroupLockedError):
                remove_group(tmp_path, "g")
        assert remove_group(tmp_path, "g") == 2
        assert remove_group(tmp_path, "g") == 0
        assert list_groups(tmp_path) == []
        assert root.clean_up().removed_records > 90
        with Consumer(tmp_path, "g") as reader:
            assert reader.committed("events") is None


def test_totals_are_those_of_all_logs(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=1) as root:
        for name in ("a", "b"):
            fill(root, name, COUNT)
        consumer(root, "g", "b").close()
        done = root.clean_up()
        assert done.removed_segments == done.logs["a"].removed_segments > 0
        assert done.removed_records == done.logs["a"].removed_records
        assert done.removed_bytes == done.logs["a"].removed_bytes
        assert done.held_back_bytes == done.logs["b"].held_back_bytes > 0


def test_what_is_not_retained_by_an_option_is_by_no_thread(tmp_path: Path) -> None:
    assert not BY_HAND.removes
    with LogRoot.open(tmp_path, BY_HAND) as root:
        assert root._periodic == []


def test_what_an_export_reads_stays_until_it_is_through(tmp_path: Path) -> None:
    with opened(tmp_path, retain_bytes=1) as root:
        fill(root, "events", COUNT)
        before = segments_of(root)
        identity = root.log("events").log.identity
        lease = HeldLease.take(tmp_path, "/", "events", identity.incarnation, 0)
        assert root.clean_up(force=True).removed_segments == 0
        assert segments_of(root) == before
        lease.end()
        assert root.clean_up(force=True).removed_segments == before - 1
