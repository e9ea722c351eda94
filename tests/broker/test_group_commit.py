"""When the messages of a queue wait for others, to share one write."""

import pytest

from amqp_server.broker.storing.group_commit import GROWTH_SECONDS_MAX, Arrivals, GroupCommit
from amqp_server.broker.storing.store_settings import StoreSettings
from amqp_server.config import Durability

INTERVAL_SECONDS = 4 * GROWTH_SECONDS_MAX
MESSAGE_BYTES = 100.0


class Bench:
    """One queue of a server, at a time that the test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.arrivals = Arrivals()
        settings = StoreSettings(Durability.FSYNC, 1000, INTERVAL_SECONDS)
        self.group = GroupCommit(settings, self.arrivals, lambda: self.seconds)
        self.end_offset = 0

    def publish(self, messages: int) -> None:
        self.group.note_arrival()
        self.end_offset += messages

    def waits(self) -> bool:
        return self.group.is_worth_waiting(0, self.end_offset, MESSAGE_BYTES)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.group.begin(2)
    return bench


def test_messages_wait_while_the_queue_grows(bench: Bench) -> None:
    for _ in range(3):
        bench.publish(1)
        assert bench.waits()
    assert not bench.waits(), "nobody publishes any more"


def test_messages_of_other_queues_are_a_reason_to_wait_a_little(bench: Bench) -> None:
    bench.publish(1)
    assert bench.waits()
    bench.seconds += GROWTH_SECONDS_MAX / 2
    bench.arrivals.count += 1
    assert bench.waits()
    bench.seconds += GROWTH_SECONDS_MAX
    bench.arrivals.count += 1
    assert not bench.waits(), "this queue has not grown"


def test_the_wait_ends_with_the_interval_however_much_is_published(bench: Bench) -> None:
    begin_seconds = bench.seconds
    bench.publish(1)
    while bench.waits():
        bench.seconds += 0.75 * GROWTH_SECONDS_MAX
        bench.publish(1)
    assert bench.end_offset * MESSAGE_BYTES < 1000
    assert bench.seconds >= begin_seconds + INTERVAL_SECONDS


def test_a_wait_begins_anew_after_a_write(bench: Bench) -> None:
    bench.publish(1)
    assert bench.waits()
    bench.group.begin(2)
    bench.seconds += INTERVAL_SECONDS
    bench.publish(1)
    assert bench.waits()


def test_many_octets_do_not_wait(bench: Bench) -> None:
    bench.publish(9)
    assert bench.waits()
    bench.publish(1)
    assert not bench.waits()


def test_a_message_does_not_wait_if_the_last_one_was_written_alone(bench: Bench) -> None:
    bench.group.begin(1)
    bench.publish(1)
    bench.arrivals.count += 100
    assert not bench.waits()
