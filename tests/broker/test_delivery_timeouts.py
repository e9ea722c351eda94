"""Delivery timeouts: a delivery is overdue when it was unanswered for the whole time."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from amqp_server.base.clock import Clock
from amqp_server.broker.channel import Channel
from amqp_server.broker.consuming.consumer import Consumer
from amqp_server.broker.consuming.delivery_timeouts import MARKS_PER_TIMEOUT, DeliveryTimeouts
from amqp_server.broker.consuming.unacked import UnackedRun, UnackedRuns
from amqp_server.broker.queue import Queue
from amqp_server.broker.turn import Turn
from amqp_server.protocol.errors import SoftError
from tests.broker.channels import a_consumer
from tests.broker.set_clock import SetClock


@dataclass(eq=False)
class WatchedChannel:
    """As much of a channel, and of its client, as the timeouts look at."""

    number: int = 7
    is_closed: bool = False
    unacked: UnackedRuns = field(default_factory=UnackedRuns)
    errors: list[str] = field(default_factory=list)
    next_tag: int = 1

    @property
    def client(self) -> "WatchedChannel":
        return self

    def close_channel(self, number: int, error: SoftError) -> None:
        assert number == self.number
        self.errors.append(error.reply_text)
        self.is_closed = True

    def deliver(self, timeouts: DeliveryTimeouts, consumer: Consumer, count: int = 1) -> None:
        first, self.next_tag = self.next_tag, self.next_tag + count
        self.unacked.add(first, count, cast("Queue", None), first, consumer)
        if consumer.timeout_ms:
            timeouts.record(first, consumer.timeout_ms)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def channel() -> WatchedChannel:
    return WatchedChannel()


@pytest.fixture
def timeouts(clock: SetClock, channel: WatchedChannel) -> DeliveryTimeouts:
    turn = Turn(lambda callback: callback(), clock.call_later, clock=cast("Clock", clock))
    return DeliveryTimeouts(cast("Channel", channel), turn)


def test_an_unanswered_delivery_closes_the_channel_in_time(
    clock: SetClock, channel: WatchedChannel, timeouts: DeliveryTimeouts
) -> None:
    channel.deliver(timeouts, a_consumer(10_000))
    clock.pass_until(9.9)
    assert not channel.errors
    clock.pass_until(10.2)
    assert channel.errors == [
        "PRECONDITION_FAILED - delivery acknowledgement on channel 7 timed out. Timeout value "
        "used: 10000 ms. This timeout value can be configured, see consumers doc guide to learn "
        "more"
    ]


def test_a_run_that_grows_and_is_answered_from_its_head_is_as_old_as_its_oldest_delivery(
    clock: SetClock, channel: WatchedChannel, timeouts: DeliveryTimeouts
) -> None:
    """The messages of one consumer make one run, however long ago its first one was answered."""
    consumer = a_consumer(10_000)
    for second in range(50):
        clock.pass_until(float(second))
        channel.deliver(timeouts, consumer)
        if second >= 5:
            assert channel.unacked.take_up_to(second - 4)
    assert not channel.errors
    # The oldest of five went out at 45.
    clock.pass_until(54.9)
    assert not channel.errors
    clock.pass_until(55.2)
    assert channel.errors


def test_a_fast_consumer_leaves_few_marks(
    clock: SetClock, channel: WatchedChannel, timeouts: DeliveryTimeouts
) -> None:
    consumer = a_consumer(1_000)
    for step in range(20_000):
        clock.pass_until(step / 1_000)
        channel.deliver(timeouts, consumer, 100)
        assert channel.unacked.take_up_to(channel.next_tag - 1)
    assert not channel.errors
    assert len(timeouts) <= 3 * MARKS_PER_TIMEOUT
    clock.pass_until(100.0)
    assert not [timer for timer in clock.timers if not timer.is_cancelled]


def test_a_shorter_timeout_that_comes_later_counts(
    clock: SetClock, channel: WatchedChannel, timeouts: DeliveryTimeouts
) -> None:
    channel.deliver(timeouts, a_consumer(60_000))
    channel.deliver(timeouts, a_consumer(0))
    clock.pass_until(1.0)
    channel.deliver(timeouts, a_consumer(2_000))
    clock.pass_until(2.9)
    assert not channel.errors
    clock.pass_until(3.1)
    assert "Timeout value used: 2000 ms" in channel.errors[0]


def test_a_closed_channel_is_left_alone(
    clock: SetClock, channel: WatchedChannel, timeouts: DeliveryTimeouts
) -> None:
    channel.deliver(timeouts, a_consumer(1_000))
    timeouts.cancel()
    clock.pass_until(10.0)
    assert not channel.errors


@pytest.mark.interpreted("a method is replaced")
def test_only_deliveries_that_are_due_are_looked_at_a_few_at_a_time(
    clock: SetClock, channel: WatchedChannel, timeouts: DeliveryTimeouts
) -> None:
    """Of many deliveries to others, and of those that went out later, none is looked at twice."""
    timed, free = a_consumer(10_000), a_consumer(0)
    looked_at = 0
    some_from = channel.unacked.some_from

    def counted(tag: int) -> list[UnackedRun]:
        nonlocal looked_at
        runs = some_from(tag)
        looked_at += len(runs)
        return runs

    channel.unacked.some_from = counted  # type: ignore[method-assign]
    for second in range(20):
        clock.pass_until(float(second))
        channel.deliver(timeouts, timed)
        for _ in range(500):
            # Each to another consumer than the one before, so that each is a run.
            channel.deliver(timeouts, free)
            channel.deliver(timeouts, a_consumer(0))
        assert channel.unacked.take_range(channel.next_tag - 1001, channel.next_tag - 1001)
    channel.deliver(timeouts, timed)
    clock.pass_until(28.5)
    assert not channel.errors
    # Each mark looks at its own thousand, and at a part of the next one's.
    assert looked_at <= 3 * 20 * 1025
    clock.pass_until(29.5)
    assert channel.errors


def test_deliveries_of_two_timeouts_are_looked_at_apart(
    clock: SetClock, channel: WatchedChannel, timeouts: DeliveryTimeouts
) -> None:
    slow, fast = a_consumer(60_000), a_consumer(1_000)
    channel.deliver(timeouts, slow)
    for second in range(50):
        clock.pass_until(float(second))
        channel.deliver(timeouts, fast)
        assert channel.unacked.take_range(channel.next_tag - 1, channel.next_tag - 1)[1] is None
    clock.pass_until(59.9)
    assert not channel.errors
    clock.pass_until(60.7)
    assert "Timeout value used: 60000 ms" in channel.errors[0]


@pytest.mark.parametrize("later", [5.0, 30.0])
def test_a_delivery_that_comes_back_with_a_rollback_counts_from_when_it_went_out(
    clock: SetClock, channel: WatchedChannel, timeouts: DeliveryTimeouts, later: float
) -> None:
    consumer = a_consumer(10_000)
    channel.deliver(timeouts, consumer)
    runs, _ = channel.unacked.take_range(1, 1)
    channel.unacked.keep_counting(runs)
    clock.pass_until(later)
    assert not channel.errors
    channel.unacked.restore(runs)
    timeouts.on_rollback()
    clock.pass_until(max(later, 10.0) + 0.2)
    assert channel.errors
