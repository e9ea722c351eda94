"""What keeps the event loop for long is counted, kept and logged with its name."""

import gc
import logging
from types import SimpleNamespace

import pytest

from amqp_server.broker.turn import Turn
from amqp_server.broker.turn_watch import BOUNDS_SECONDS, KEPT_STALLS, TurnWatch
from tests.stopwatch import Stopwatch


def test_work_is_counted_by_its_duration() -> None:
    watch = TurnWatch()

    for seconds in (0.0, 0.001, 0.0011, 0.02, 0.0201, 0.1, 5.0):
        watch.record(seconds, "work")

    assert sum(watch.buckets) == 7
    expected = {0.001: 2, 0.002: 1, 0.02: 1, 0.05: 1, 0.1: 1, None: 1}
    found = dict(zip([*BOUNDS_SECONDS, None], watch.buckets, strict=True))
    assert {bound: count for bound, count in found.items() if count} == expected
    assert (watch.stall_count, watch.longest_seconds) == (3, 5.0)
    assert [stall.seconds for stall in watch.stalls] == [0.0201, 0.1, 5.0]


def test_the_last_stalls_are_kept() -> None:
    watch = TurnWatch()
    for number in range(KEPT_STALLS + 3):
        watch.record(0.03, str(number))

    assert [stall.what for stall in watch.stalls] == [
        str(number) for number in range(3, KEPT_STALLS + 3)
    ]


def test_long_stalls_are_logged_and_not_every_one_of_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = Stopwatch(100.0)
    watch = TurnWatch(now)
    with caplog.at_level(logging.WARNING):
        watch.record(0.09, "short")
        for what in ("first", "second", "third"):
            watch.record(0.2, what)
        now.seconds += 2
        watch.record(0.3, "fourth")

    assert [record.getMessage() for record in caplog.records] == [
        "event loop stalled seconds=0.200 by=first unlogged_before=0",
        "event loop stalled seconds=0.300 by=fourth unlogged_before=2",
    ]


def test_a_task_that_takes_long_is_named() -> None:
    now = Stopwatch()
    watch, due = TurnWatch(now), list[object]()

    class Work:
        def __init__(self, name: str, seconds: float) -> None:
            self.name, self.seconds = name, seconds

        def run_turn(self) -> None:
            now.seconds += self.seconds

    turn = Turn(due.append, lambda _seconds, _run: SimpleNamespace(), watch, stopwatch=now)
    for name, seconds in (("quick", 0.01), ("slow", 0.5)):
        turn.mark(Work(name, seconds))
    turn._run()
    turn.mark(Work("late", 0.04))
    while due:
        due.clear()
        turn._run()

    assert [(stall.what, round(stall.seconds, 3)) for stall in watch.stalls] == [
        ("Work name='slow'", 0.5),
        ("Work name='late'", 0.04),
    ]


def test_garbage_collections_are_measured_until_the_stop() -> None:
    times = iter([0.0, 0.05])
    watch = TurnWatch(lambda: next(times, 1.0))
    watch.watch_collections()
    gc.collect()
    watch.stop()
    watch.stop()

    assert watch.record_collection not in gc.callbacks
    assert watch.stalls[0].what == "garbage collection generation=2"
