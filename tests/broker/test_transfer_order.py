"""Which queue forwards its messages next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from amqp_server.broker.transfers.transfer_order import TransferOrder
from amqp_server.broker.turn import TaskQueue
from tests.stopwatch import Stopwatch

if TYPE_CHECKING:
    from amqp_server.broker.turn import Turn, TurnTask


class SetTurn:
    """Runs the order once in each turn, in which every slice is over after one step."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self.stopwatch = stopwatch
        self.transfers = TaskQueue()
        self.time_slice = SimpleNamespace(is_over=True)
        self.is_marked = False

    def mark(self, task: TurnTask, task_queue: TaskQueue) -> None:
        assert task_queue is self.transfers
        self.is_marked = True

    mark_now = mark


class FakeSender:
    """Works for some seconds at a time, so many times."""

    def __init__(self, name: str, bench: Bench, seconds: float, times: int) -> None:
        self.clock_seconds = 0.0
        self.is_sending = False
        self.times = times
        self._name = name
        self._bench = bench
        self._seconds = seconds

    def send_some(self) -> None:
        self._bench.sent.append(self._name)
        self._bench.stopwatch.seconds += self._seconds
        self.times -= 1
        if self.times:
            self._bench.order.ask(self)


class Bench:
    """An order, its turn and what was sent."""

    def __init__(self) -> None:
        # It moves only when a sender works.
        self.stopwatch = Stopwatch()
        self.turn = SetTurn(self.stopwatch)
        self.order = TransferOrder(cast("Turn", self.turn))
        self.sent: list[str] = []

    def sender(self, name: str, seconds: float, times: int = 1) -> FakeSender:
        sender = FakeSender(name, self, seconds, times)
        self.order.ask(sender)
        return sender

    def run(self, turns: int = 1_000) -> list[str]:
        """Run some turns, or until nothing waits; return what they sent."""
        before = len(self.sent)
        while self.turn.is_marked and turns:
            self.turn.is_marked = False
            turns -= 1
            self.order.run_turn()
        return self.sent[before:]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_few_dead_letters_do_not_wait_for_those_of_many_queues(bench: Bench) -> None:
    for number in range(20):
        # Their slices differ, as they do on a real clock: no two have used the same time for long.
        bench.sender(f"greedy {number}", 1.5 + 0.1 * number**0.5, 100)
    bench.run(100)

    modest = bench.sender("modest", 0.1, 2)

    assert bench.run(5).count("modest") == 2
    bench.run(100)
    modest.times = 1
    bench.order.ask(modest)
    assert "modest" in bench.run(3)


def test_senders_that_use_little_go_before_those_that_use_much(bench: Bench) -> None:
    bench.sender("much", 10.0, 5)
    bench.sender("little", 1.0, 20)

    assert bench.run(12) == ["much", *["little"] * 10, "much"]


def test_a_sender_saves_up_no_time_while_it_does_not_wait(bench: Bench) -> None:
    bench.sender("busy", 1.0, 100)
    back = bench.sender("back", 1.0)
    bench.run(50)

    back.times = 30
    bench.order.ask(back)

    assert 9 <= bench.run(20).count("back") <= 11


def test_one_that_asks_twice_sends_once(bench: Bench) -> None:
    sender = bench.sender("twice", 1.0)
    bench.order.ask(sender)
    assert bench.run() == ["twice"]


def test_after_an_error_the_others_go_on(bench: Bench) -> None:
    broken = bench.sender("broken", 1.0)
    bench.sender("sound", 1.0)

    def fail() -> None:
        raise LookupError("a mistake")

    broken.send_some = fail  # type: ignore[method-assign]
    with pytest.raises(LookupError):
        bench.run()

    assert bench.run() == ["sound"]


def test_what_a_sender_has_begun_it_sends_first(bench: Bench) -> None:
    """Half of a copy is memory, and there would be one for each sender."""
    for name in "ab":
        bench.sender(name, seconds=1.0, times=3).is_sending = True
    assert "".join(bench.run()) == "aaabbb"
