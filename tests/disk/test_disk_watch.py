"""The watch looks which operations have not returned; the clock is the test's."""

from collections.abc import Hashable
from queue import SimpleQueue

import pytest

from amqp_server.upkeep import disk_watch
from amqp_server.upkeep.disk_watch import EXIT_DISK_STALL, DiskWatch, Stall
from appendlog.files.operation import Operation
from tests.limits import HANG_SECONDS

LIMIT = 30.0


class Recorded:
    """What a watch looks at, and what it reports."""

    def __init__(self, *, exits: bool = False) -> None:
        self.under_way: list[Operation] = []
        self.reported: list[Stall | None] = []
        self.now_seconds = 1000.0
        self.watch = DiskWatch(
            [lambda: self.under_way, list], LIMIT, self.reported.append, exits=exits
        )

    def look(self, seconds: float, *keys: Hashable) -> None:
        """Let time pass with operations under way, in looks of half a second."""
        self.under_way = [Operation(key, "fsync", -1) for key in keys]
        for _ in range(round(seconds * 2)):
            self.now_seconds += 0.5
            self.watch.look(self.now_seconds)

    @property
    def states(self) -> list[bool]:
        """Whether each report was a stall."""
        return [each is not None for each in self.reported]


def test_an_operation_is_a_stall_when_the_limit_is_over() -> None:
    recorded = Recorded()
    recorded.look(10.0, "a")
    recorded.look(20.0, "a", "b")
    assert recorded.states == []

    recorded.look(0.5, "a", "b")
    (stall,) = recorded.reported
    assert stall is not None
    assert (stall.operation.key, stall.seconds, stall.late_count) == ("a", 30.0, 1)


def test_many_short_operations_are_none() -> None:
    recorded = Recorded()
    for number in range(1000):
        recorded.look(0.5, number, number + 1)
    assert recorded.states == []


def test_a_process_that_was_stopped_is_none() -> None:
    recorded = Recorded()
    recorded.look(1.0, "a")
    recorded.now_seconds += 10_000
    recorded.look(1.0, "a")
    assert recorded.states == []
    recorded.look(28.0, "a")
    assert recorded.states == [True]


def test_a_stall_begins_and_ends_once() -> None:
    recorded = Recorded()
    recorded.look(60.0, "a", "b")
    # The disk hangs as long as one hangs.
    recorded.look(1.0, "b")
    assert recorded.states == [True]
    recorded.look(1.0, "c")
    assert recorded.states == [True, False]
    recorded.look(30.0, "c")
    assert recorded.states == [True, False, True]


def test_an_end_is_logged_with_its_duration(caplog: pytest.LogCaptureFixture) -> None:
    recorded = Recorded()
    recorded.look(45.0, "a")
    recorded.look(0.5)
    began, ended = [each.getMessage() for each in caplog.records]
    assert began == (
        "disk does not answer operation=fsync path=(descriptor -1) seconds=30.0 operations=1 "
        "note=confirms wait, publishers are blocked"
    )
    assert ended == "disk answers again seconds=45.0"


def test_the_process_may_end_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(disk_watch, "end_at_once", lambda code, _: codes.append(code))
    recorded = Recorded(exits=True)
    recorded.look(31.0, "a")
    assert codes == [EXIT_DISK_STALL]
    assert recorded.reported == []


def test_a_watch_that_was_never_started_stops() -> None:
    Recorded().watch.stop()


def test_an_error_of_a_source_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(disk_watch, "LOOK_SECONDS", 0.001)
    looked: SimpleQueue[int] = SimpleQueue()
    errors = [RuntimeError("dictionary changed size during iteration")]

    def source() -> list[Operation]:
        looked.put(1)
        if errors:
            raise errors.pop()
        return []

    watch = DiskWatch([source], LIMIT, lambda _: None)
    watch.start()
    try:
        for _ in range(2):
            looked.get(timeout=HANG_SECONDS)
    finally:
        watch.stop()
    assert caplog.records[0].getMessage() == "disk not watched"
