"""A turn: what many events mark runs once, when the loop has read what there was."""

from collections.abc import Callable

import pytest

from amqp_server.broker.turn import LOW_PRIORITY_SECONDS, Turn


class Timer:
    """Something that the loop was asked to call later."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def come_due(self) -> None:
        if self.callback is not None:
            self.callback()


class Loop:
    """An event loop of which only `call_soon` and `call_later` are asked."""

    def __init__(self) -> None:
        self.called: list[Callable[[], None]] = []
        self.timers: dict[float, Timer] = {}

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.called.append(callback)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = self.timers[seconds] = Timer(callback)
        return timer

    def run_once(self) -> None:
        called, self.called = self.called, []
        for callback in called:
            callback()


class Task:
    """Writes its name down; marks others while it runs."""

    def __init__(self, name: str, ran: list[str]) -> None:
        self.name = name
        self.ran = ran
        self.marks: list[Callable[[], None]] = []

    def run_turn(self) -> None:
        self.ran.append(self.name)
        while self.marks:
            self.marks.pop()()


def test_what_is_marked_twice_runs_once_in_the_order_of_the_first_mark() -> None:
    loop, ran = Loop(), list[str]()
    turn = Turn(loop.call_soon, loop.call_later)
    first, second = Task("first", ran), Task("second", ran)
    for task in (first, second, first):
        turn.mark(task)

    assert len(loop.called) == 1
    loop.run_once()
    assert ran == ["first", "second"]
    assert loop.called == []


def test_what_is_marked_during_a_turn_runs_in_the_next() -> None:
    loop, ran = Loop(), list[str]()
    turn = Turn(loop.call_soon, loop.call_later)
    first, second = Task("first", ran), Task("second", ran)
    first.marks = [lambda: turn.mark(first), lambda: turn.mark(second)]
    turn.mark(first)
    turn.mark(second)

    loop.run_once()
    assert ran == ["first", "second"]
    loop.run_once()
    assert sorted(ran[2:]) == ["first", "second"]
    assert loop.called == []


def test_a_task_that_fails_does_not_cost_the_others_their_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, ran = Loop(), list[str]()
    turn = Turn(loop.call_soon, loop.call_later)

    class Broken:
        def run_turn(self) -> None:
            raise ZeroDivisionError

    class Whole:
        def run_turn(self) -> None:
            ran.append("whole")

    turn.mark(Broken())
    turn.mark(Whole())
    loop.run_once()

    assert ran == ["whole"]
    assert "turn failed" in caplog.text


def test_what_is_marked_for_later_runs_at_the_end_of_the_turn_in_which_its_time_comes() -> None:
    loop, ran = Loop(), list[str]()
    turn = Turn(loop.call_soon, loop.call_later)
    kept, cancelled = Task("kept", ran), Task("cancelled", ran)
    turn.mark_after(2.5, kept)
    turn.mark_after(3.5, cancelled).cancel()
    assert loop.called == []

    for timer in loop.timers.values():
        timer.come_due()
    turn.mark(kept)

    loop.run_once()
    assert ran == ["kept"]


def test_what_is_patient_runs_behind_all_others_and_in_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_seconds = 0.0
    monkeypatch.setattr("amqp_server.broker.turn.perf_counter", lambda: now_seconds)
    loop, ran = Loop(), list[str]()
    turn = Turn(loop.call_soon, loop.call_later)

    class Slow(Task):
        def run_turn(self) -> None:
            nonlocal now_seconds
            now_seconds += LOW_PRIORITY_SECONDS / 2
            super().run_turn()

    readers = [Slow(f"reader {number}", ran) for number in range(5)]
    for reader in readers:
        turn.schedule_low_priority(reader)
    turn.mark(Task("queue", ran))
    readers[0].marks = [lambda: turn.schedule_low_priority(readers[0])]
    loop.run_once()
    assert ran == ["queue", "reader 0", "reader 1"]
    turn.mark(Task("other queue", ran))
    turn.schedule_low_priority(readers[2])
    loop.run_once()
    assert ran[3:] == ["other queue", "reader 2", "reader 3"]
    loop.run_once()
    assert ran[6:] == ["reader 4", "reader 0"]
    assert loop.called == []


def test_a_patient_task_that_fails_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Time stands still: to write the traceback down takes longer than a share on a busy machine.
    monkeypatch.setattr("amqp_server.broker.turn.perf_counter", lambda: 0.0)
    loop, ran = Loop(), list[str]()
    turn = Turn(loop.call_soon, loop.call_later)

    class Failing(Task):
        def run_turn(self) -> None:
            raise ValueError(self.name)

    turn.schedule_low_priority(Failing("bad", ran))
    turn.schedule_low_priority(Task("good", ran))
    loop.run_once()
    assert ran == ["good"]
