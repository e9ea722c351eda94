"""What a channel asks of its queues: once for each, however many runs and consumers it has."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from amqp_server.broker.channel import Channel
from amqp_server.broker.consuming.consumer import Consumer
from amqp_server.broker.consuming.requeueing import STEP_MESSAGES, STEP_RANGES
from amqp_server.broker.counters.delivery_pair import DeliveryPair
from amqp_server.broker.merged_ranges import merged
from amqp_server.broker.queue import Queue
from amqp_server.broker.transactions.transaction import Outcome
from amqp_server.broker.turn import Turn, TurnTask
from tests.broker.channels import a_channel


class Loop:
    """Calls later what it is given, when it is asked to."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.turn = Turn(self.calls.append, lambda seconds, call: pytest.fail("no timer"))

    def run(self) -> None:
        """Run until nothing is left: by the machine's clock a turn may end before all is done."""
        while self.calls:
            self.calls.pop(0)()


class AskedQueue:
    """Remembers what it is asked for."""

    is_deleted = False

    def __init__(self, turn: Turn) -> None:
        self.requeued: list[Sequence[tuple[int, int]]] = []
        self.settled: list[tuple[int, int]] = []
        self.wakes = 0
        self.runs = 0
        self.begun = 0
        self.ended = 0
        self._turn = turn

    def add_delivery_pair(self, pair: DeliveryPair) -> None:
        """Take no notice."""

    def begin_work(self) -> None:
        self.begun += 1

    def end_work(self) -> None:
        self.ended += 1

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        self.requeued.append(ranges)

    def settle(self, start: int, end: int) -> None:
        self.settled.append((start, end))

    def wake(self) -> None:
        self.wakes += 1
        self._turn.mark(cast("TurnTask", self))

    def on_credit_restored(self) -> None:
        self.wake()

    def run_turn(self) -> None:
        self.runs += 1


class BrokenQueue(AskedQueue):
    """Takes nothing back."""

    def __repr__(self) -> str:
        return "<bad>"

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        raise ValueError("requeued what is ready already")


def a_consumer(channel: Channel, queue: AskedQueue, tag: str = "tag") -> Consumer:
    counted = cast("Queue", queue)
    consumer = Consumer(
        tag,
        channel,
        counted,
        channel.counters.deliveries_of(counted),
        no_ack=False,
        exclusive=False,
        prefetch=0,
        timeout_ms=0,
    )
    channel.consumers[tag] = consumer
    return consumer


def by_priority(count: int) -> list[int]:
    """Return offsets as a queue with two priorities delivers them: odd ones first."""
    return [*range(1, count, 2), *range(0, count, 2)]


@pytest.mark.parametrize("outcome", [Outcome.REQUEUED, Outcome.ACKNOWLEDGED])
def test_what_was_delivered_by_priority_is_one_range_for_its_queue(outcome: Outcome) -> None:
    loop = Loop()
    channel = a_channel(loop.turn)
    queues = [AskedQueue(loop.turn) for _ in range(2)]
    consumers = [a_consumer(channel, queue, f"{queue}") for queue in queues]
    for tag, offset in enumerate(by_priority(1000)):
        consumer = consumers[tag % 3 == 0]
        channel.unacked.add(tag + 1, 1, consumer.source, offset, consumer)
        consumer.unacked += 1

    channel.apply(outcome, channel.unacked.take_all())

    for at, queue in enumerate(queues):
        offsets = {offset for tag, offset in enumerate(by_priority(1000)) if (tag % 3 == 0) == at}
        ranges = queue.settled if outcome is Outcome.ACKNOWLEDGED else queue.requeued.pop()
        assert not queue.requeued
        assert [*ranges] == sorted(ranges)
        assert {offset for start, end in ranges for offset in range(start, end)} == offsets
        assert all(end not in offsets for _, end in ranges), "two ranges touch"
        assert queue.wakes == 1
        assert consumers[at].unacked == 0


def test_a_long_run_returns_in_parts() -> None:
    """A queue with priorities looked at 300,000 messages in one step."""
    loop = Loop()
    channel = a_channel(loop.turn)
    queue = AskedQueue(loop.turn)
    consumer = a_consumer(channel, queue)
    channel.unacked.add(1, 5000, consumer.source, 70, consumer)
    channel.unacked.add(5001, 1, consumer.source, 9000, consumer)
    channel.unacked.add(5002, 1000, consumer.source, 9001, consumer)
    consumer.unacked = 6001

    steps = channel.resolve(Outcome.REQUEUED, channel.unacked.take_up_to(6001) or [])

    assert steps is not None
    assert not queue.requeued, "it began before a step was taken"
    next(steps)
    assert not queue.requeued, "the first step gathers"
    for taken, _ in enumerate(steps, 1):
        assert len(queue.requeued) == taken
        assert 0 < sum(end - start for start, end in queue.requeued[-1]) <= STEP_MESSAGES
    assert consumer.unacked == 0
    assert merged(each for part in queue.requeued for each in part) == [(70, 5070), (9000, 10001)]
    starts = [start for part in queue.requeued for start, _ in part]
    assert starts == sorted(starts), "a later one returned before an earlier one"
    assert (queue.begun, queue.ended) == (1, 1)


def test_what_two_priorities_had_in_turn_returns_as_long_ranges_from_the_lowest_on() -> None:
    """The two runs of 10,000 single messages are one range again before the queue sees them."""
    loop = Loop()
    channel = a_channel(loop.turn)
    queues = [AskedQueue(loop.turn) for _ in range(2)]
    for tag, offset in enumerate(by_priority(20_000)):
        source = queues[tag % 5000 >= 4000]
        channel.unacked.add(tag + 1, 1, cast("Queue", source), offset, None)

    for _ in channel.requeue_unacked():
        assert [(queue.begun, queue.ended) for queue in queues] in [[(1, 0), (0, 0)], [(1, 0)] * 2]

    assert channel.unacked.count == 0
    by_queue: list[set[int]] = [set(), set()]
    for tag, offset in enumerate(by_priority(20_000)):
        by_queue[tag % 5000 >= 4000].add(offset)
    for queue, offsets in zip(queues, by_queue, strict=True):
        parts = queue.requeued
        ranges = [each for part in parts for each in part]
        assert ranges == sorted(ranges)
        assert [at for each in ranges for at in range(*each)] == sorted(offsets)
        assert all(0 < len(part) <= STEP_RANGES for part in parts)
        assert all(0 < sum(high - low for low, high in part) <= STEP_MESSAGES for part in parts)
        assert (queue.begun, queue.ended) == (1, 1)
    assert len([each for part in queues[0].requeued for each in part]) < 40


def test_a_queue_that_fails_keeps_nothing_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Loop()
    channel = a_channel(loop.turn)
    bad, good = BrokenQueue(loop.turn), AskedQueue(loop.turn)
    for at in range(2000):
        channel.unacked.add(2 * at + 1, 1, cast("Queue", bad), 2 * at, None)
        channel.unacked.add(2 * at + 2, 1, cast("Queue", good), 2 * at, None)

    with pytest.raises(ValueError, match="ready already"):
        deque(channel.requeue_unacked(), maxlen=0)

    assert sum(end - start for part in good.requeued for start, end in part) == 2000
    assert [(queue.begun, queue.ended) for queue in (bad, good)] == [(1, 1)] * 2
    assert [record.message for record in caplog.records] == ["requeue failed source=<bad>"]


def test_a_thousand_limits_in_one_turn_wake_each_consumer_once() -> None:
    loop = Loop()
    channel = a_channel(loop.turn)
    queues = [AskedQueue(loop.turn) for _ in range(3)]
    for queue in queues:
        a_consumer(channel, queue, f"{queue}")

    for turns in (1, 2):
        for _ in range(1000):
            channel.wake_consumers()
        assert [queue.wakes for queue in queues] == [turns] * 3
        loop.run()
        assert [queue.runs for queue in queues] == [turns] * 3
