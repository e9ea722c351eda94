"""Confirms: in order, merged where alike, never before every barrier is passed."""

from dataclasses import dataclass, field
from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp_server.broker.counters.channel_counters import ChannelCounters
from amqp_server.broker.counters.counted_channels import CountedChannels
from amqp_server.broker.counters.publish_pair import PublishPair
from amqp_server.broker.publishing.confirms import Barrier, ConfirmResult, PublisherConfirms
from amqp_server.broker.queue import Queue
from amqp_server.broker.virtual_host import VirtualHost
from tests.broker.bindings import an_exchange


@dataclass(eq=False)
class WrittenQueue:
    """A queue of which only the answers of the disk matter."""

    confirmed_end: int = 0
    is_failed: bool = False
    withdrawn: list[tuple[int, int]] = field(default_factory=list)

    def withdraw(self, start: int, end: int) -> None:
        self.withdrawn.append((start, end))

    def barrier(self, end_offset: int, count: int = 1) -> Barrier:
        return Barrier(cast("Queue", self), end_offset - count, end_offset)


def test_publishes_that_wait_for_nothing_are_answered_with_one_answer() -> None:
    confirms = PublisherConfirms()
    confirms.add(3, [])
    confirms.add(2, [])

    assert len(confirms) == 1
    assert confirms.release() == [ConfirmResult(5, refused=False)]
    assert (confirms.last_tag, confirms.resolved_tag, len(confirms)) == (5, 5, 0)
    assert confirms.release() == []


def test_what_failed_stays_refused_though_the_queue_works_again_before_it_is_answered() -> None:
    """Other messages had its offsets by then, and their safety was taken for its own."""
    confirms = PublisherConfirms()
    slow, failing = WrittenQueue(), WrittenQueue()
    confirms.add(1, [slow.barrier(1)])
    confirms.add(2, [failing.barrier(2, 2)])
    confirms.add(3, [slow.barrier(4, 3), failing.barrier(5, 3)])
    failing.confirmed_end = 2
    failing.is_failed = True

    assert confirms.refuse(cast("Queue", failing)) == [6]
    assert failing.withdrawn == [(2, 5)]
    assert slow.withdrawn == []
    assert confirms.release() == []
    failing.is_failed = False
    failing.confirmed_end = 9
    slow.confirmed_end = 9

    assert confirms.release() == [ConfirmResult(3, refused=False), ConfirmResult(6, refused=True)]


def test_a_refused_publish_is_answered_when_its_other_queues_have_it_or_fail_too() -> None:
    """Who tries again leaves out those that have it: they must not fail afterwards."""
    confirms = PublisherConfirms()
    first, second, third = WrittenQueue(), WrittenQueue(), WrittenQueue()
    confirms.add(1, [first.barrier(1), second.barrier(1), third.barrier(1)])
    first.is_failed = True

    assert confirms.refuse(cast("Queue", first)) == [1]
    assert confirms.release() == []
    third.confirmed_end = 1
    assert confirms.release() == []
    second.is_failed = True
    assert confirms.refuse(cast("Queue", second)) == [1]
    assert confirms.release() == [ConfirmResult(1, refused=True)]


def test_what_is_safe_waits_for_what_was_published_before_it() -> None:
    confirms = PublisherConfirms()
    slow = WrittenQueue()
    confirms.add(1, [])
    confirms.add(4, [slow.barrier(4)])
    confirms.add(1, [])

    assert confirms.release() == [ConfirmResult(1, refused=False)]
    slow.confirmed_end = 3
    assert confirms.release() == []
    slow.confirmed_end = 4
    assert confirms.release() == [ConfirmResult(6, refused=False)]


def test_all_queues_that_took_a_publish_must_have_it() -> None:
    confirms = PublisherConfirms()
    first, second = WrittenQueue(), WrittenQueue()
    confirms.add(1, [first.barrier(10), second.barrier(20)])

    first.confirmed_end = 10
    assert confirms.release() == []
    second.confirmed_end = 20
    assert confirms.release() == [ConfirmResult(1, refused=False)]


def test_refused_publishes_keep_their_place() -> None:
    confirms = PublisherConfirms()
    confirms.add(2, [])
    confirms.add(3, [], refused=True)
    confirms.add(1, [], refused=True)
    confirms.add(1, [])

    assert confirms.release() == [
        ConfirmResult(2, False),
        ConfirmResult(6, True),
        ConfirmResult(7, False),
    ]


def test_a_failed_queue_refuses_what_it_never_made_safe() -> None:
    confirms = PublisherConfirms()
    queue = WrittenQueue(confirmed_end=5, is_failed=True)
    confirms.add(1, [queue.barrier(5)])
    confirms.add(1, [queue.barrier(6)])

    assert confirms.release() == [ConfirmResult(1, refused=False), ConfirmResult(2, refused=True)]


def test_a_queue_that_failed_later_does_not_refuse_what_another_queue_still_writes() -> None:
    confirms = PublisherConfirms()
    failed, slow = WrittenQueue(confirmed_end=5, is_failed=True), WrittenQueue()
    confirms.add(1, [failed.barrier(5), slow.barrier(1)])

    assert confirms.release() == []
    slow.confirmed_end = 1
    assert confirms.release() == [ConfirmResult(1, refused=False)]


def batch_of(*queues: WrittenQueue) -> tuple[list[tuple[list[Queue], int]], list[Barrier]]:
    """Return the parts and barriers of a batch with two messages for each queue in turn."""
    parts = [([cast("Queue", queue)], 2) for queue in queues]
    counts = {queue: 2 * queues.count(queue) for queue in queues}
    return parts, [queue.barrier(count, count) for queue, count in counts.items()]


def test_a_batch_is_answered_once_when_all_its_queues_have_it() -> None:
    confirms = PublisherConfirms()
    first, second = WrittenQueue(), WrittenQueue()
    confirms.add_batch(*batch_of(first, second, first))
    first.confirmed_end = 4
    assert confirms.release() == []
    second.confirmed_end = 2
    assert confirms.release() == [ConfirmResult(6, refused=False)]


def test_a_batch_is_refused_only_where_a_log_has_failed() -> None:
    confirms = PublisherConfirms()
    failing, other = WrittenQueue(), WrittenQueue()
    confirms.add_batch(*batch_of(failing, other, failing, other))
    failing.confirmed_end = 2
    failing.is_failed = True

    assert confirms.refuse(cast("Queue", failing)) == [6]
    assert failing.withdrawn == [(2, 4)]
    assert confirms.release() == [ConfirmResult(2, refused=False)]
    other.confirmed_end = 4
    assert confirms.release() == [
        ConfirmResult(4, refused=False),
        ConfirmResult(6, refused=True),
        ConfirmResult(8, refused=False),
    ]


def test_a_queue_that_took_nothing_of_a_batch_refuses_its_part() -> None:
    confirms = PublisherConfirms()
    failed, other = WrittenQueue(is_failed=True), WrittenQueue()
    parts, barriers = batch_of(other, failed, other)
    confirms.add_batch(parts, barriers[:1], [cast("Queue", failed)])
    other.confirmed_end = 4

    assert confirms.release() == [
        ConfirmResult(2, refused=False),
        ConfirmResult(4, refused=True),
        ConfirmResult(6, refused=False),
    ]


def test_what_is_confirmed_of_a_batch_with_a_failed_log_is_counted() -> None:
    confirms = PublisherConfirms()
    counters = PublishPair(
        ChannelCounters("c", 1, VirtualHost("/"), CountedChannels()), an_exchange("e")
    )
    failing, other = WrittenQueue(), WrittenQueue()
    confirms.add_batch(*batch_of(failing, other, other), counters=counters)
    failing.is_failed = True
    confirms.refuse(cast("Queue", failing))
    other.confirmed_end = 4

    assert confirms.release()[-1] == ConfirmResult(6, refused=False)
    assert counters.confirm == 4


class ConfirmsMachine(RuleBasedStateMachine):
    """Every publish is answered once, in order, and confirmed only when it is safe."""

    def __init__(self) -> None:
        super().__init__()
        self.confirms = PublisherConfirms()
        self.queues = [WrittenQueue() for _ in range(3)]
        self.ends = [0, 0, 0]
        self.waiting: list[tuple[list[tuple[WrittenQueue, int]], bool]] = []
        # For each of them: the ends of the batch that it waits with.
        self.batches: list[list[tuple[WrittenQueue, int]]] = []

    @rule(count=st.integers(1, 4), queues=st.sets(st.integers(0, 2)), refused=st.booleans())
    def publish(self, count: int, queues: set[int], refused: bool) -> None:
        for target in queues:
            self.ends[target] += count
        barriers = [(self.queues[target], self.ends[target]) for target in sorted(queues)]
        self.confirms.add(
            count, [queue.barrier(end, count) for queue, end in barriers], refused=refused
        )
        self.waiting += [(barriers, refused)] * count
        self.batches += [barriers] * count

    @rule(
        parts=st.lists(
            st.tuples(st.sets(st.integers(0, 2), min_size=1), st.integers(1, 3)), min_size=1
        )
    )
    def publish_batch(self, parts: list[tuple[set[int], int]]) -> None:
        begins = list(self.ends)
        batch: list[tuple[list[tuple[WrittenQueue, int]], bool]] = []
        for queues, count in parts:
            for target in queues:
                self.ends[target] += count
            barriers = [(self.queues[target], self.ends[target]) for target in sorted(queues)]
            batch += [(barriers, False)] * count
        used = {target for queues, _ in parts for target in queues}
        of_batch = [(self.queues[target], self.ends[target]) for target in sorted(used)]
        self.confirms.add_batch(
            [
                ([cast("Queue", self.queues[target]) for target in sorted(queues)], count)
                for queues, count in parts
            ],
            [
                self.queues[target].barrier(self.ends[target], self.ends[target] - begins[target])
                for target in sorted(used)
            ],
        )
        self.waiting += batch
        self.batches += [of_batch] * len(batch)

    @rule(number=st.integers(0, 2), share=st.floats(0, 1))
    def write(self, number: int, share: float) -> None:
        queue = self.queues[number]
        if not queue.is_failed:
            queue.confirmed_end += int((self.ends[number] - queue.confirmed_end) * share)

    @precondition(lambda self: len(self.waiting) > 8)
    @rule(number=st.integers(0, 2))
    def fail(self, number: int) -> None:
        self.queues[number].is_failed = True

    @rule()
    def release(self) -> None:
        answered = self.confirms.resolved_tag
        before = None
        for answer in self.confirms.release():
            assert answer.refused is not before, "answers alike are one answer"
            before = answer.refused
            assert answer.last_tag > answered
            for barriers, refused in self.waiting[: answer.last_tag - answered]:
                safe = all(queue.confirmed_end >= end for queue, end in barriers)
                assert answer.refused is (refused or not safe)
                assert safe or refused or any(queue.is_failed for queue, _ in barriers)
            del self.waiting[: answer.last_tag - answered]
            del self.batches[: answer.last_tag - answered]
            answered = answer.last_tag
        assert self.confirms.resolved_tag == answered
        if self.waiting:
            barriers = self.batches[0]
            missing = [queue for queue, end in barriers if queue.confirmed_end < end]
            assert missing, "the first that waits could be answered"
            # The publisher repeats the message without the queues that have it, so the result of
            # each queue has to be known first.
            assert not all(queue.is_failed for queue in missing)

    @invariant()
    def every_publish_is_counted(self) -> None:
        assert self.confirms.last_tag - self.confirms.resolved_tag == len(self.waiting)


TestConfirmsMachine = ConfirmsMachine.TestCase
