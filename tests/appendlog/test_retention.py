"""Each bound of retention, by the files that it leaves."""

from pathlib import Path

import pytest

from appendlog import Log, RetentionPolicy
from appendlog.reclaim.retention import ends_within_total, forced_end, kept_settled, removal_end
from tests.appendlog.builders import append, expected, open_log, read_all

NOW_NS = 1_000 + 60
"""Message N was appended at 1,000 + N."""


def a_log(directory: Path) -> Log:
    """Return a log of ten sealed segments of six messages, and a last one."""
    log, _ = open_log(directory, segment_bytes=700)
    append(log, 0, 63)
    assert [segment.base_offset for segment in log.segments] == list(range(0, 61, 6))
    return log


def left(log: Log, end: int) -> int:
    """Remove what is below `end`; return how many files are left."""
    log.remove_settled(end)
    assert read_all(log) == expected(log.log_start_offset, 63)
    return len(list(log.directory.glob("*.log")))


def sealed_bytes(log: Log, count: int) -> int:
    return sum(segment.size_bytes for segment in log.segments[:-1][-count:])


@pytest.mark.parametrize(
    ("policy", "floor", "files"),
    [
        pytest.param(RetentionPolicy(), 63, 1, id="nothing is kept"),
        pytest.param(RetentionPolicy(), 29, 7, id="but what is not settled"),
        pytest.param(RetentionPolicy(retain_for_ns=25), 63, 5, id="by age"),
        pytest.param(RetentionPolicy(retain_for_ns=25), 14, 9, id="by age, not settled"),
        pytest.param(RetentionPolicy(segments_min=4), 63, 4, id="by number"),
        pytest.param(RetentionPolicy(segments_min=40), 63, 11, id="more than there are"),
        pytest.param(RetentionPolicy(retain_for_ns=1, segments_min=3), 63, 3, id="age and number"),
    ],
)
def test_what_goes_by_age_and_number(
    tmp_path: Path, policy: RetentionPolicy, floor: int, files: int
) -> None:
    log = a_log(tmp_path / "q")
    assert left(log, removal_end(log.segments, floor, policy, NOW_NS)) == files


def test_what_goes_by_size(tmp_path: Path) -> None:
    log = a_log(tmp_path / "q")
    policy = RetentionPolicy(retain_bytes=sealed_bytes(log, 3))
    assert left(log, removal_end(log.segments, 63, policy, NOW_NS)) == 4


def test_of_age_and_size_the_bound_that_is_passed_first_counts(tmp_path: Path) -> None:
    log = a_log(tmp_path / "q")
    policy = RetentionPolicy(retain_for_ns=25, retain_bytes=sealed_bytes(log, 7))
    assert removal_end(log.segments, 63, policy, NOW_NS) == 36
    policy = RetentionPolicy(retain_for_ns=25, retain_bytes=sealed_bytes(log, 2))
    assert removal_end(log.segments, 63, policy, NOW_NS) == 48


def test_what_is_forced_out_goes_by_age_alone(tmp_path: Path) -> None:
    log = a_log(tmp_path / "q")
    policy = RetentionPolicy(force_after_ns=25, segments_min=11)
    assert forced_end(log.segments, policy, NOW_NS) == 36
    assert forced_end(log.segments, RetentionPolicy(), NOW_NS) == 0
    old = RetentionPolicy(force_after_ns=25)
    assert forced_end(log.segments, old, NOW_NS + 10_000) == 60


def test_what_is_not_protected_goes_by_the_bounds(tmp_path: Path) -> None:
    log = a_log(tmp_path / "q")
    unprotected = RetentionPolicy(retain_for_ns=25, protects_unconsumed=False)
    assert forced_end(log.segments, unprotected, NOW_NS) == 36
    unbounded = RetentionPolicy(protects_unconsumed=False)
    assert forced_end(log.segments, unbounded, NOW_NS) == 0
    assert not unbounded.may_force


def test_the_oldest_of_all_logs_go_when_they_are_too_much_together(tmp_path: Path) -> None:
    keeps = RetentionPolicy(retain_for_ns=1 << 60)
    logs = {name: a_log(tmp_path / name) for name in "ab"}
    for segment in logs["a"].segments:
        segment.summary.last_timestamp_ns -= 15
    kept = {name: kept_settled(log.segments, 63, 0, keeps) for name, log in logs.items()}
    room = 2 * sealed_bytes(logs["a"], 8)
    ends = ends_within_total(kept, room, NOW_NS)
    assert ends == {"a": 18, "b": 6}
    assert sum(sealed_bytes(log, 10) for log in logs.values()) > room
    for name, end in ends.items():
        logs[name].remove_settled(end)
    assert sum(sealed_bytes(log, 10) for log in logs.values()) <= room
    assert ends_within_total(kept, 1 << 40, NOW_NS) == {}


def test_the_total_spares_the_newest_segments_that_a_log_is_to_keep(tmp_path: Path) -> None:
    log = a_log(tmp_path / "q")
    policy = RetentionPolicy(retain_for_ns=1 << 60, segments_min=4)
    kept = {"q": kept_settled(log.segments, 63, 0, policy)}
    assert left(log, ends_within_total(kept, 0, NOW_NS)["q"]) == 4
