"""A turn: a marked task runs once, when the loop has read; clients share the time of the loop."""

from collections.abc import Callable

import pytest

from amqp_server.broker.turn import LEAD_SECONDS, TURN_SECONDS, TaskQueue, Turn
from tests.stopwatch import Stopwatch


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


class Busy(Task):
    """A task that takes time, and always has more to do in its task queue."""

    def __init__(self, name: str, ran: list[str], stopwatch: Stopwatch, seconds: float) -> None:
        super().__init__(name, ran)
        self._stopwatch = stopwatch
        self._seconds = seconds
        self.turn: Turn | None = None

    def run_turn(self) -> None:
        super().run_turn()
        self._stopwatch.seconds += self._seconds
        if self.turn is not None:
            self.turn.mark(self)


@pytest.fixture
def stopwatch() -> Stopwatch:
    """What the turn measures by; it moves only when a task takes time."""
    return Stopwatch()


def turn_of(
    loop: Loop, stopwatch: Stopwatch, record_work: Callable[[float], None] | None = None
) -> Turn:
    return Turn(
        loop.call_soon,
        loop.call_later,
        record_work=record_work,
        stopwatch=stopwatch,
        processor_time=stopwatch.processor_time,
    )


def test_what_is_marked_twice_runs_once_in_the_order_of_the_first_mark(
    stopwatch: Stopwatch,
) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    first, second = Task("first", ran), Task("second", ran)
    for task in (first, second, first):
        turn.mark(task)

    assert len(loop.called) == 1
    loop.run_once()
    assert ran == ["first", "second"]
    assert loop.called == []


def test_what_is_marked_during_a_turn_runs_in_the_next(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
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
    caplog: pytest.LogCaptureFixture, stopwatch: Stopwatch
) -> None:
    # Time stands still: to write the traceback takes longer than a turn on a busy machine.
    assert stopwatch.seconds == 0.0
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)

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


def test_what_is_marked_for_later_runs_at_the_end_of_the_turn_in_which_its_time_comes(
    stopwatch: Stopwatch,
) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    kept, cancelled = Task("kept", ran), Task("cancelled", ran)
    turn.mark_after(2.5, kept)
    turn.mark_after(3.5, cancelled).cancel()
    assert loop.called == []

    for timer in loop.timers.values():
        timer.come_due()
    turn.mark(kept)

    loop.run_once()
    assert ran == ["kept"]


def test_a_turn_ends_and_the_loop_reads_before_the_rest(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    for number in range(4):
        turn.mark(Busy(str(number), ran, stopwatch, TURN_SECONDS / 2))

    loop.run_once()
    assert ran == ["0", "1"]
    loop.run_once()
    assert ran == ["0", "1", "2", "3"]
    assert loop.called == []


def test_each_turn_reports_its_work_and_that_of_the_reads_before_it(stopwatch: Stopwatch) -> None:
    loop, ran, worked = Loop(), list[str](), list[float]()
    turn = turn_of(loop, stopwatch, worked.append)
    task_queue = turn.new_task_queue()
    turn.run_now(Busy("read", ran, stopwatch, 0.25), task_queue)
    stopwatch.seconds += 100.0
    for name in ("first", "second"):
        turn.mark(Busy(name, ran, stopwatch, 0.5), task_queue)
    while loop.called:
        loop.run_once()

    assert ran == ["read", "first", "second"]
    assert worked == [0.75, 0.5]


def test_a_client_that_asks_for_little_goes_before_one_that_asks_for_much(
    stopwatch: Stopwatch,
) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    greedy, modest = turn.new_task_queue(), turn.new_task_queue()
    for number in range(1000):
        turn.mark(Busy(f"greedy {number}", ran, stopwatch, LEAD_SECONDS), greedy)
    loop.run_once()
    loop.run_once()
    ran.clear()

    turn.mark(Busy("modest", ran, stopwatch, LEAD_SECONDS), modest)
    loop.run_once()
    assert ran == ["modest"]
    loop.run_once()
    assert ran == ["modest", "greedy 2"]


def test_lines_get_equal_shares_whatever_their_tasks_take(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    parts = [1, 2, 5] * 4
    tasks = [Busy(f"{at}", ran, stopwatch, LEAD_SECONDS / part) for at, part in enumerate(parts)]
    for task in tasks:
        task.turn = turn
        turn.mark(task, turn.new_task_queue())
    for _ in range(2000):
        loop.run_once()

    used = [ran.count(f"{at}") / part for at, part in enumerate(parts)]
    assert max(used) - min(used) <= 2, used


def test_a_line_that_was_empty_saves_up_no_time(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    idle, busy = turn.new_task_queue(), turn.new_task_queue()
    tasks = {
        task_queue: Busy(name, ran, stopwatch, LEAD_SECONDS)
        for task_queue, name in ((busy, "busy"), (idle, "idle"))
    }
    for task in tasks.values():
        task.turn = turn
    turn.mark(tasks[busy], busy)
    for _ in range(100):
        loop.run_once()
    ran.clear()
    turn.mark(tasks[idle], idle)
    for _ in range(20):
        loop.run_once()

    assert ran.count("idle") >= 9
    assert ran.count("busy") >= 9


def test_a_client_whose_input_is_handled_at_once_saves_up_no_time_either(
    stopwatch: Stopwatch,
) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    idle = turn.new_task_queue()
    for _ in range(9):
        busy = Busy("busy", ran, stopwatch, LEAD_SECONDS)
        busy.turn = turn
        turn.mark(busy, turn.new_task_queue())
    for _ in range(200):
        loop.run_once()
    ran.clear()
    for _ in range(100):
        turn.run_now(Busy("idle", ran, stopwatch, LEAD_SECONDS), idle)
        loop.run_once()

    # A tenth of the time, as each of the others.
    assert ran.count("idle") <= len(ran) / 10 + 2
    assert ran.count("idle") >= len(ran) / 10 - 2


@pytest.mark.parametrize("is_read", [True, False])
def test_a_client_does_not_pay_for_other_programs(stopwatch: Stopwatch, *, is_read: bool) -> None:
    """On a busy machine it would wait until others have used as much time as it has lost."""
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    modest = turn.new_task_queue()
    greedy = Busy("greedy", ran, stopwatch, LEAD_SECONDS)
    greedy.turn = turn
    turn.mark(greedy, turn.new_task_queue())
    for _ in range(10):
        loop.run_once()

    class Interrupted(Busy):
        def run_turn(self) -> None:
            super().run_turn()
            stopwatch.seconds += 1.0
            stopwatch.others_seconds += 1.0

    interrupted = Interrupted("interrupted", ran, stopwatch, LEAD_SECONDS / 10)
    if is_read:
        assert turn.run_now(interrupted, modest)
    else:
        turn.mark(interrupted, modest)
    while "interrupted" not in ran:
        loop.run_once()
    ran.clear()
    turn.mark(Busy("modest", ran, stopwatch, LEAD_SECONDS), modest)
    while "modest" not in ran:
        loop.run_once()

    assert ran.count("greedy") <= 4


def test_a_client_pays_for_a_long_task(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    long, short = turn.new_task_queue(), turn.new_task_queue()
    for name, task_queue, seconds in (("long", long, 50), ("short", short, 1)):
        task = Busy(name, ran, stopwatch, seconds * LEAD_SECONDS)
        task.turn = turn
        turn.mark(task, task_queue)
    for _ in range(510):
        loop.run_once()

    assert 9 <= ran.count("long") <= 11


def test_a_client_gains_nothing_by_leaving_and_coming_back(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    steady = Busy("steady", ran, stopwatch, LEAD_SECONDS)
    steady.turn = turn
    turn.mark(steady, turn.new_task_queue())
    for times in range(100):
        # It asks again as a new connection, as soon as it was served.
        turn.mark(Busy("new", ran, stopwatch, LEAD_SECONDS), turn.new_task_queue())
        while ran.count("new") == times:
            loop.run_once()

    assert ran.count("new") <= ran.count("steady") + 2


def test_a_queue_in_the_lines_of_two_clients_runs_once_for_both(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    queue = Task("queue", ran)
    for task_queue in (TaskQueue(), TaskQueue()):
        turn.mark(queue, task_queue)

    loop.run_once()
    assert ran == ["queue"]
    assert loop.called == []


def test_a_task_can_go_on_in_the_same_turn_with_another_but_not_with_itself(
    stopwatch: Stopwatch,
) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    task_queue = TaskQueue()
    first, second = Task("first", ran), Task("second", ran)
    first.marks = [lambda: turn.mark_now(second, task_queue)]
    second.marks = [lambda: turn.mark_now(second, task_queue)]
    turn.mark(first)

    loop.run_once()
    assert ran == ["first", "second"]
    loop.run_once()
    assert ran == ["first", "second", "second"]
    assert loop.called == []


def test_what_a_task_marks_waits_in_the_line_of_that_task(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    greedy, modest = turn.new_task_queue(), turn.new_task_queue()
    session = Busy("session", ran, stopwatch, LEAD_SECONDS)
    session.marks = [
        lambda number=number: turn.mark(Busy(f"queue {number}", ran, stopwatch, LEAD_SECONDS))  # type: ignore[misc]
        for number in range(100)
    ]
    turn.mark(session, greedy)
    loop.run_once()
    turn.mark(Busy("modest", ran, stopwatch, 0.0), modest)
    while "modest" not in ran:
        loop.run_once()

    assert len(ran) <= 4


def test_a_task_that_is_marked_while_it_waits_runs_in_its_time_and_once_more(
    stopwatch: Stopwatch,
) -> None:
    """A mark that is made during a turn must not be taken back by the task's run in that turn."""
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    first, second = Task("first", ran), Task("second", ran)
    first.marks = [lambda: turn.mark(second)]
    turn.mark(first)
    turn.mark(second)

    loop.run_once()
    loop.run_once()
    assert ran == ["first", "second", "second"]


def test_input_is_handled_at_once_while_its_client_has_time(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    task_queue = turn.new_task_queue()

    assert turn.run_now(Busy("small", ran, stopwatch, 0.0), task_queue)
    assert ran == ["small"]
    assert turn.run_now(Busy("long", ran, stopwatch, TURN_SECONDS), task_queue)
    # What is read before the next turn waits for it.
    assert not turn.run_now(Busy("next", ran, stopwatch, 0.0), turn.new_task_queue())
    assert ran == ["small", "long"]
    loop.run_once()
    assert ran == ["small", "long", "next"]
    assert turn.run_now(Busy("again", ran, stopwatch, 0.0), turn.new_task_queue())


def test_input_of_a_client_that_has_used_more_than_one_that_waits_is_handled_after_it(
    stopwatch: Stopwatch,
) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    greedy, modest = turn.new_task_queue(), turn.new_task_queue()
    assert turn.run_now(Busy("much", ran, stopwatch, 10 * LEAD_SECONDS), greedy)
    turn.mark(Busy("waits", ran, stopwatch, TURN_SECONDS), modest)
    loop.run_once()
    turn.mark(Busy("waits too", ran, stopwatch, 0.0), modest)

    assert not turn.run_now(Busy("more", ran, stopwatch, 0.0), greedy)
    loop.run_once()
    assert ran == ["much", "waits", "waits too", "more"]


class Holding:
    """Holds something back until the turn ends, and then may break."""

    def __init__(self, ran: list[str], *, breaks: bool = False) -> None:
        self.ran = ran
        self.breaks = breaks

    def let_go(self) -> None:
        self.ran.append("let go")
        if self.breaks:
            raise ValueError


def test_what_is_held_back_goes_once_when_the_turn_ends(stopwatch: Stopwatch) -> None:
    loop, ran = Loop(), list[str]()
    turn = turn_of(loop, stopwatch)
    holding = [Holding(ran, breaks=True), Holding(ran)]
    works: list[int] = []
    for name in ("first", "last"):
        task = Task(name, ran)
        task.marks = [lambda: turn.holders.append(holding.pop()), lambda: works.append(turn.work)]
        turn.mark(task)

    assert turn.work == 0
    loop.run_once()
    assert ran == ["first", "last", "let go", "let go"]
    assert works == [works[0]] * 2
    assert (turn.work, turn.holders) == (0, [])

    last = Task("input", ran)
    last.marks = [
        lambda: turn.holders.append(Holding(ran)),
        lambda: works.append(turn.work),
    ]
    assert turn.run_now(last, turn.new_task_queue())
    assert ran[4:] == ["input", "let go"]
    assert (turn.work, turn.holders) == (0, [])
    assert works[2] not in {0, works[0]}, "each call of run_now has a number of its own"
