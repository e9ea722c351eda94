"""The lease of a queue: it ends when the queue was not used for long enough, never sooner."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from amqp_server.broker.queue import Queue
from amqp_server.broker.rules import expiry_timer
from amqp_server.broker.rules.expiry_timer import ExpiryTimer
from amqp_server.broker.turn import Turn
from amqp_server.broker.virtual_host import VirtualHost


@dataclass
class Timer:
    at: float
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class Clock:
    """Time that passes when a test says so, and the timers that come due in it."""

    now: float = 0.0
    timers: list[Timer] = field(default_factory=list)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + seconds, callback))
        return self.timers[-1]

    def pass_seconds(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [each for each in self.timers if each.at <= end and not each.is_cancelled]:
            timer = min(due, key=lambda each: each.at)
            self.timers.remove(timer)
            self.now = timer.at
            timer.callback()
        self.now = end


@dataclass(eq=False)
class LeasedQueue:
    """As much of a queue as a lease looks at."""

    name: str = "q"
    is_deleted: bool = False
    consumers: list[str] = field(default_factory=list)
    virtual_host: VirtualHost = field(default_factory=lambda: VirtualHost("/"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(expiry_timer, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def queue() -> LeasedQueue:
    return LeasedQueue()


@pytest.fixture
def lease(clock: Clock, queue: LeasedQueue) -> ExpiryTimer:
    def delete(_queue: Queue) -> None:
        assert not queue.is_deleted, "deleted twice"
        queue.is_deleted = True

    turn = Turn(lambda callback: callback(), clock.call_later)
    return ExpiryTimer(cast("Queue", queue), 10.0, turn, delete)


@pytest.mark.usefixtures("lease")
def test_an_unused_queue_goes_when_its_time_is_over(clock: Clock, queue: LeasedQueue) -> None:
    clock.pass_seconds(9.9)
    assert not queue.is_deleted
    clock.pass_seconds(0.1)
    assert queue.is_deleted
    assert not clock.timers


def test_using_it_begins_the_time_anew_with_one_timer(
    clock: Clock, queue: LeasedQueue, lease: ExpiryTimer
) -> None:
    for _ in range(5):
        clock.pass_seconds(9.0)
        lease.renew()
        lease.renew()
    assert len(clock.timers) == 1
    clock.pass_seconds(9.9)
    assert not queue.is_deleted
    clock.pass_seconds(0.1)
    assert queue.is_deleted


def test_a_consumer_keeps_it_and_the_last_one_to_leave_begins_the_time_anew(
    clock: Clock, queue: LeasedQueue, lease: ExpiryTimer
) -> None:
    queue.consumers.append("c")
    clock.pass_seconds(1_000.0)
    assert not queue.is_deleted
    assert not clock.timers
    queue.consumers.clear()
    lease.renew()
    clock.pass_seconds(9.9)
    assert not queue.is_deleted
    clock.pass_seconds(0.1)
    assert queue.is_deleted


def test_a_queue_deleted_otherwise_leaves_no_timer_behind(
    clock: Clock, queue: LeasedQueue, lease: ExpiryTimer
) -> None:
    queue.is_deleted = True
    lease.cancel()
    assert all(timer.is_cancelled for timer in clock.timers)
    clock.pass_seconds(100.0)


def test_nothing_expires_any_more_when_the_server_stops(
    clock: Clock, queue: LeasedQueue, lease: ExpiryTimer
) -> None:
    """A client that is cut off at the end cancelled its consumer, and the time began anew."""
    lease.cancel()
    lease.renew()
    clock.pass_seconds(100.0)
    assert not queue.is_deleted
    assert not [timer for timer in clock.timers if not timer.is_cancelled]
