"""Which segments of a stream go, by age and by what all take."""

from pathlib import Path

import pytest

from appendlog import Log
from appendlog.reclaim.stream_retention import StreamBounds, stream_start
from tests.appendlog.builders import append, open_log

NOW_NS = 1_000 + 60
"""Message N was appended at 1,000 + N."""


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return a log of ten sealed segments of six messages, and a last one."""
    log, _ = open_log(tmp_path / "q", segment_bytes=700)
    append(log, 0, 63)
    assert [segment.base_offset for segment in log.segments] == list(range(0, 61, 6))
    return log


def test_without_bounds_nothing_goes(log: Log) -> None:
    assert stream_start(log.segments, StreamBounds(), NOW_NS) == 0


@pytest.mark.parametrize(
    ("age_ns", "now_ns", "start"),
    [(25, NOW_NS, 36), (60, NOW_NS, 0), (54, NOW_NS, 6), (1, NOW_NS + 10**12, 60)],
)
def test_a_segment_goes_when_all_of_it_is_too_old(
    log: Log, age_ns: int, now_ns: int, start: int
) -> None:
    assert stream_start(log.segments, StreamBounds(max_age_ns=age_ns), now_ns) == start


@pytest.mark.parametrize("kept", [2, 5, 10])
def test_the_oldest_segments_go_while_all_are_larger(log: Log, kept: int) -> None:
    kept_bytes = sum(segment.size_bytes for segment in log.segments[-kept:])
    bounds = StreamBounds(max_bytes=kept_bytes)
    assert stream_start(log.segments, bounds, NOW_NS) == 66 - 6 * kept
    bounds = StreamBounds(max_bytes=kept_bytes - 1)
    assert stream_start(log.segments, bounds, NOW_NS) == 66 - 6 * (kept - 1)


def test_the_last_segment_stays_whatever_the_bounds(log: Log) -> None:
    assert stream_start(log.segments, StreamBounds(1, 0), NOW_NS + 10**12) == 60
    assert stream_start(log.segments[-1:], StreamBounds(1, 0), NOW_NS + 10**12) == 0
    assert stream_start((), StreamBounds(1, 0), NOW_NS) == 0


def test_whichever_bound_is_passed_first_counts(log: Log) -> None:
    two_bytes = sum(segment.size_bytes for segment in log.segments[-2:])
    assert stream_start(log.segments, StreamBounds(25, two_bytes), NOW_NS) == 54
    assert stream_start(log.segments, StreamBounds(25, 10**9), NOW_NS) == 36
