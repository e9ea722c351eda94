"""What a queue's rules wait for, with a clock that goes on while they work."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.queue_settings import QueueSettings
from amqp_server.broker.rules.deadlines import PAGE_RUNS
from amqp_server.broker.rules.message_attributes import MessageAttributes
from amqp_server.broker.rules.queue_rules import QueueRules
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from amqp_server.base.clock import Timer
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.turn import Turn, TurnTask


class FakeQueue:
    """Has ready messages, and settles what it drops."""

    refuses_when_full = False
    forwarder = None

    def __init__(self, ready: int) -> None:
        self.ready = FifoOrder()
        self.ready.extend(ready)
        self.settlement = Settlement()
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1

    def drop(self, start: int, end: int, reason: str) -> None:
        self.settlement.settle(start, end)


class FakeTurn:
    """Remembers what is to happen when; nothing is cancelled."""

    def __init__(self) -> None:
        self.clock = SimpleNamespace(monotonic_ms=count(1_000).__next__)
        self.delays_seconds: list[float] = []
        self.time_slice = SimpleNamespace(is_over=False)

    def mark_after(self, seconds: float, task: TurnTask) -> Timer:
        self.delays_seconds.append(seconds)
        return self

    def cancel(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("late_ms", range(6))
def test_a_deadline_that_passes_while_others_expire_is_not_forgotten(
    late_ms: int,
) -> None:
    """It had not come when the messages were looked at, and had when the timer was set."""
    queue, turn = FakeQueue(2), FakeTurn()
    attributes = MessageAttributes(QueueSettings(), 0)
    attributes.deadlines.add(0, 1, 990)
    attributes.deadlines.add(1, 2, 1_000 + late_ms)
    rules = QueueRules(cast("Queue", queue), attributes, None, cast("Turn", turn))

    while rules.before_delivery() or rules.after_delivery():
        pass

    # Either it has expired, or somebody comes back for it.
    assert queue.settlement.ack_floor == 2 or len(turn.delays_seconds) == 1
    assert all(seconds >= 0 for seconds in turn.delays_seconds)


def test_the_deadlines_of_settled_messages_are_removed_over_several_turns() -> None:
    pages = 4
    queue, turn = FakeQueue(0), FakeTurn()
    turn.time_slice.is_over = True
    attributes = MessageAttributes(QueueSettings(), 0)
    for offset in range(pages * PAGE_RUNS):
        attributes.deadlines.add(offset, offset + 1, (1 << 60) + offset % 2)
    queue.settlement.settle(0, pages * PAGE_RUNS - 1)
    rules = QueueRules(cast("Queue", queue), attributes, None, cast("Turn", turn))

    left: list[int] = []
    while queue.wakes == len(left):
        assert not rules.after_delivery(), "no request has to wait for it"
        left.append(len(attributes.deadlines))

    assert left == [PAGE_RUNS * (pages - done) for done in range(1, pages)] + [1, 1]
