"""The expiry timer deletes a queue that was not used for long enough, and never sooner."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from amqp_server.base.clock import Clock
from amqp_server.broker.queue import Queue
from amqp_server.broker.rules.expiry_timer import ExpiryTimer
from amqp_server.broker.turn import Turn
from amqp_server.broker.virtual_host import VirtualHost
from tests.broker.set_clock import SetClock


@dataclass(eq=False)
class TimedQueue:
    """The attributes of a queue that its expiry timer reads."""

    name: str = "q"
    is_deleted: bool = False
    consumers: list[str] = field(default_factory=list)
    virtual_host: VirtualHost = field(default_factory=lambda: VirtualHost("/"))


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def queue() -> TimedQueue:
    return TimedQueue()


@pytest.fixture
def expiry(clock: SetClock, queue: TimedQueue) -> ExpiryTimer:
    def delete() -> None:
        assert not queue.is_deleted, "deleted twice"
        queue.is_deleted = True

    turn = Turn(lambda callback: callback(), clock.call_later, clock=cast("Clock", clock))
    return ExpiryTimer(cast("Queue", queue), 10.0, turn, delete)


@pytest.mark.usefixtures("expiry")
def test_an_unused_queue_goes_when_its_time_is_over(clock: SetClock, queue: TimedQueue) -> None:
    clock.pass_seconds(9.9)
    assert not queue.is_deleted
    clock.pass_seconds(0.1)
    assert queue.is_deleted
    assert not clock.timers


def test_using_it_begins_the_time_anew_with_one_timer(
    clock: SetClock, queue: TimedQueue, expiry: ExpiryTimer
) -> None:
    for _ in range(5):
        clock.pass_seconds(9.0)
        expiry.renew()
        expiry.renew()
    assert len(clock.timers) == 1
    clock.pass_seconds(9.9)
    assert not queue.is_deleted
    clock.pass_seconds(0.1)
    assert queue.is_deleted


def test_a_consumer_keeps_it_and_the_last_one_to_leave_begins_the_time_anew(
    clock: SetClock, queue: TimedQueue, expiry: ExpiryTimer
) -> None:
    queue.consumers.append("c")
    clock.pass_seconds(1_000.0)
    assert not queue.is_deleted
    assert not clock.timers
    queue.consumers.clear()
    expiry.renew()
    clock.pass_seconds(9.9)
    assert not queue.is_deleted
    clock.pass_seconds(0.1)
    assert queue.is_deleted


def test_a_queue_deleted_otherwise_leaves_no_timer_behind(
    clock: SetClock, queue: TimedQueue, expiry: ExpiryTimer
) -> None:
    queue.is_deleted = True
    expiry.cancel()
    assert all(timer.is_cancelled for timer in clock.timers)
    clock.pass_seconds(100.0)


def test_nothing_expires_any_more_when_the_server_stops(
    clock: SetClock, queue: TimedQueue, expiry: ExpiryTimer
) -> None:
    """A client that is cut off at the end cancelled its consumer, and the time began anew."""
    expiry.cancel()
    expiry.renew()
    clock.pass_seconds(100.0)
    assert not queue.is_deleted
    assert not [timer for timer in clock.timers if not timer.is_cancelled]
