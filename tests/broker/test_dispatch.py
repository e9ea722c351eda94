"""Dispatch: shares by credit, in turn, lowest offset first."""

from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.consuming.consumer import Consumer
from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
from amqp_server.broker.consuming.dispatch import (
    FEW_PASSED,
    RUN_BYTES_MAX,
    RUN_MESSAGES_MAX,
    STEP_ABLE,
    STEP_ASIDE,
    STEP_CONSUMERS,
    dispatch,
)
from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.queue import Queue


@dataclass(eq=False)
class OwnChannel:
    is_closed: bool = False


@dataclass(eq=False)
class TakingConsumer:
    """Takes what it is given as long as it has credit, and remembers it."""

    credit: int
    exclusive: bool = False
    priority: int = 0
    prefetch: int = 0
    unacked: int = 0
    aside_of: ConsumerRotation | None = None
    channel: OwnChannel = field(default_factory=OwnChannel)
    taken: list[tuple[int, bool]] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)

    def deliver(self, first_offset: int, messages: list[bytes], *, redelivered: bool) -> None:
        for step, message in enumerate(messages):
            assert int(message.rstrip(b".")) == first_offset + step
            self.taken.append((first_offset + step, redelivered))
        self.runs.append(len(messages))
        self.credit -= len(messages)
        assert self.credit >= 0, "given more than its credit"


@dataclass(eq=False)
class ReadyQueue:
    """A queue whose message N says N; below `log_end` nothing is at hand."""

    ready: FifoOrder = field(default_factory=FifoOrder)
    consumers: ConsumerRotation = field(default_factory=ConsumerRotation)
    message_bytes: int = 8
    at_hand_max: int = 1 << 30
    log_end: int = 0

    @property
    def store(self) -> "ReadyQueue":
        return self

    def read_run(self, start: int, end: int) -> list[bytes]:
        if start < self.log_end:
            return []
        end = min(end, start + self.at_hand_max)
        return [b"%d" % offset + b"." * self.message_bytes for offset in range(start, end)]

    def as_delivered(self, start: int, messages: list[bytes], *, redelivered: bool) -> list[bytes]:
        return messages

    def serve(self, *consumers: TakingConsumer) -> None:
        for consumer in consumers:
            self.consumers.add(cast("Consumer", consumer))

    def dispatch(self) -> bool:
        # A slow machine must not cut it: what a cut leaves is shared out again.
        endless = TimeSlice()
        endless.began_seconds = float("inf")
        return dispatch(cast("Queue", self), endless) is not None


def ready_queue(count: int, *consumers: TakingConsumer) -> ReadyQueue:
    queue = ReadyQueue()
    queue.ready.extend(count)
    queue.serve(*consumers)
    return queue


def test_a_lone_consumer_gets_all_its_credit_allows() -> None:
    consumer = TakingConsumer(credit=7)
    queue = ready_queue(10, consumer)

    assert queue.dispatch() is False
    assert consumer.taken == [(offset, False) for offset in range(7)]
    assert len(queue.ready) == 3


def test_a_lone_consumer_is_asked_for_its_credit_once_a_delivery() -> None:
    class AskedConsumer(TakingConsumer):
        asked = 0

        def __getattribute__(self, name: str) -> object:
            if name == "credit":
                AskedConsumer.asked += 1
            return super().__getattribute__(name)

    consumer = AskedConsumer(credit=100)
    queue = ready_queue(0, consumer)
    for end in range(1, 11):
        queue.ready.extend(end)
        before, AskedConsumer.asked = AskedConsumer.asked, 0
        queue.dispatch()
        # The consumer itself looks twice at what it gives away.
        assert AskedConsumer.asked == 3, before
    assert len(consumer.taken) == 10


def test_few_messages_are_shared_equally() -> None:
    consumers = [TakingConsumer(credit=100) for _ in range(4)]
    queue = ready_queue(10, *consumers)

    assert queue.dispatch() is False
    assert [len(consumer.taken) for consumer in consumers] == [3, 3, 2, 2]


def test_single_messages_go_round() -> None:
    consumers = [TakingConsumer(credit=100) for _ in range(3)]
    queue = ready_queue(0, *consumers)
    for end in range(1, 8):
        queue.ready.extend(end)
        queue.dispatch()

    assert [[offset for offset, _ in each.taken] for each in consumers] == [
        [0, 3, 6],
        [1, 4],
        [2, 5],
    ]


@given(
    arrivals=st.lists(st.integers(1, 9), min_size=1, max_size=40), consumer_count=st.integers(1, 5)
)
def test_shares_stay_equal_however_the_messages_arrive(
    arrivals: list[int], consumer_count: int
) -> None:
    consumers = [TakingConsumer(credit=1 << 30) for _ in range(consumer_count)]
    queue = ready_queue(0, *consumers)
    end = 0
    for count in arrivals:
        end += count
        queue.ready.extend(end)
        queue.dispatch()

    shares = [len(consumer.taken) for consumer in consumers]
    assert sum(shares) == end
    assert max(shares) - min(shares) <= 1


def test_a_slice_that_is_over_does_not_change_the_shares_of_few_consumers() -> None:
    consumers = [TakingConsumer(credit=1 << 30) for _ in range(STEP_CONSUMERS)]
    queue = ready_queue(4 * STEP_CONSUMERS, *consumers)
    over = TimeSlice()
    over.began_seconds = float("-inf")

    assert dispatch(cast("Queue", queue), over) is None

    assert [len(each.taken) for each in consumers] == [4] * STEP_CONSUMERS


def test_a_higher_priority_goes_first_as_far_as_its_credit_reaches() -> None:
    low, high, highest = (
        TakingConsumer(credit, priority=priority) for credit, priority in ((9, -1), (4, 5), (3, 7))
    )
    queue = ready_queue(10, low, high, highest)

    assert queue.dispatch() is False
    assert [len(each.taken) for each in (low, high, highest)] == [3, 4, 3]
    assert [offset for offset, _ in highest.taken] == [0, 1, 2]


def test_a_lower_priority_waits_while_a_higher_one_can_take_more() -> None:
    low, high = TakingConsumer(1 << 30, priority=1), TakingConsumer(1 << 30, priority=2)
    queue = ready_queue(RUN_MESSAGES_MAX + 1, low, high)

    assert queue.dispatch() is True
    assert queue.dispatch() is False
    assert (len(low.taken), len(high.taken)) == (0, RUN_MESSAGES_MAX + 1)


def test_equal_priorities_share() -> None:
    consumers = [TakingConsumer(100, priority=priority) for priority in (3, 1, 3, 3)]
    queue = ready_queue(7, *consumers)

    assert queue.dispatch() is False
    assert [len(consumer.taken) for consumer in consumers] == [3, 0, 2, 2]


def test_whoever_leaves_leaves_its_priority_to_the_others() -> None:
    rotation = ConsumerRotation()
    low, high = (cast("Consumer", TakingConsumer(1, priority=priority)) for priority in (0, 9))
    rotation.add(low)
    rotation.add(high)
    assert [list(level) for level in rotation.levels] == [[high], [low]]
    rotation.remove(high)
    assert [list(level) for level in rotation.levels] == [[low]]
    rotation.remove(low)
    assert len(rotation.levels) == 0


def test_a_full_consumer_is_passed_over() -> None:
    full, able = TakingConsumer(credit=0), TakingConsumer(credit=100)
    queue = ready_queue(4, full, able)

    assert queue.dispatch() is False
    assert (full.taken, len(able.taken)) == ([], 4)


def test_nothing_is_taken_when_nobody_can_take_it() -> None:
    queue = ready_queue(4, TakingConsumer(credit=0))

    assert queue.dispatch() is False
    assert len(queue.ready) == 4
    assert ready_queue(4).dispatch() is False


def test_a_run_is_bounded_in_messages_and_the_rest_is_for_the_next_turn() -> None:
    consumer = TakingConsumer(credit=1 << 30)
    queue = ready_queue(RUN_MESSAGES_MAX + 1, consumer)

    assert queue.dispatch() is True
    assert consumer.runs == [RUN_MESSAGES_MAX]
    assert queue.dispatch() is False
    assert consumer.runs == [RUN_MESSAGES_MAX, 1]


def test_a_run_is_bounded_in_bytes_but_one_message_always_goes() -> None:
    consumer = TakingConsumer(credit=100)
    queue = ready_queue(10, consumer)
    queue.message_bytes = RUN_BYTES_MAX // 3
    assert queue.dispatch() is True
    queue.message_bytes = RUN_BYTES_MAX * 2
    assert queue.dispatch() is True

    assert consumer.runs == [2, 1]


def test_what_came_back_goes_before_what_is_new_and_is_marked() -> None:
    consumer = TakingConsumer(credit=100)
    queue = ready_queue(6, consumer)
    queue.ready.take(6)
    for offset in (1, 3, 5):
        queue.ready.requeue(offset, offset + 1)
    queue.ready.extend(8)

    while queue.dispatch():
        pass

    assert consumer.taken == [(1, True), (3, True), (5, True), (6, False), (7, False)]


class CountedConsumer(TakingConsumer):
    """Counts how often any of its kind is asked for its credit."""

    asked = 0

    def __getattribute__(self, name: str) -> object:
        if name == "credit":
            CountedConsumer.asked += 1
        return super().__getattribute__(name)


def test_a_message_to_many_consumers_costs_what_it_costs_with_a_few() -> None:
    """Consumers of other clients would wait until all thousands of them were looked at."""
    consumers = [CountedConsumer(credit=1) for _ in range(20 * STEP_ABLE)]
    queue = ready_queue(1, *consumers)
    CountedConsumer.asked = 0

    assert queue.dispatch() is False
    assert CountedConsumer.asked <= 2 * STEP_ABLE
    assert [bool(consumer.taken) for consumer in consumers[:3]] == [True, False, False]


def test_consumers_with_all_their_messages_unacked_are_passed_quickly() -> None:
    full = [CountedConsumer(credit=0, prefetch=2, unacked=2) for _ in range(1_000)]
    able = CountedConsumer(credit=1, prefetch=2, unacked=1)
    queue = ready_queue(1, *full, able)
    CountedConsumer.asked = 0

    assert queue.dispatch() is False
    assert len(able.taken) == 1
    assert CountedConsumer.asked <= 6


def all_aside(
    count: int, ready_count: int, priority: int = 0, *, leaving: bool = False
) -> tuple[ReadyQueue, list[TakingConsumer]]:
    """Return a queue whose consumers stand aside: full, or, if `leaving`, of closed channels."""
    unacked = 0 if leaving else 1
    full = [
        TakingConsumer(0, False, priority, 1, unacked, channel=OwnChannel(leaving))
        for _ in range(count)
    ]
    queue = ready_queue(ready_count, *full)
    turns = 0
    while queue.dispatch():
        turns += 1
    assert turns == count // STEP_ASIDE - 1, "one turn does not look at all of them"
    assert list(queue.consumers.levels) == []
    return queue, full


@pytest.mark.parametrize("ready_count", [1, 5])
def test_whoever_stands_aside_is_looked_at_again_when_it_comes_back(ready_count: int) -> None:
    queue, full = all_aside(3 * STEP_ASIDE, ready_count)
    assert len(queue.consumers) == len(full)
    for back in full[100], full[7]:
        back.unacked, back.credit = 0, 1
        queue.consumers.take_back(cast("Consumer", back))

    assert queue.dispatch() is False

    assert [len(full[at].taken) for at in (100, 7)] == [1, int(ready_count > 1)]
    assert len(queue.ready) == max(ready_count - 2, 0)


def test_whoever_stands_aside_keeps_the_lower_priorities_from_nothing() -> None:
    queue, _ = all_aside(2 * STEP_ASIDE, 3, priority=5)
    low = TakingConsumer(2)
    queue.serve(low)

    assert queue.dispatch() is False
    assert len(low.taken) == 2


def test_the_level_behind_one_whose_consumers_are_all_put_aside_is_served_at_once() -> None:
    full = [TakingConsumer(0, prefetch=1, unacked=1, priority=5) for _ in range(FEW_PASSED + 1)]
    middle, low = TakingConsumer(1, priority=3), TakingConsumer(9)
    queue = ready_queue(4, *full, middle, low)

    assert queue.dispatch() is False
    assert (len(middle.taken), len(low.taken)) == (1, 3)


def test_consumers_that_wait_for_their_channel_do_not_stand_aside() -> None:
    """Nobody would take them back when the client reads again."""
    waiting = [TakingConsumer(0) for _ in range(2 * STEP_ASIDE)]
    queue = ready_queue(3, *waiting)
    assert queue.dispatch() is False
    waiting[-1].credit = 3

    assert queue.dispatch() is False
    assert len(waiting[-1].taken) == 3


@pytest.mark.parametrize("leaving", [False, True])
def test_whoever_stands_aside_may_leave(leaving: bool) -> None:
    queue, full = all_aside(STEP_ASIDE, 1, leaving=leaving)
    for consumer in full:
        queue.consumers.remove(cast("Consumer", consumer))

    assert len(queue.consumers) == 0
    assert {consumer.aside_of for consumer in full} == {None}
    able = TakingConsumer(1)
    queue.serve(able)
    assert queue.dispatch() is False
    assert len(able.taken) == 1


@pytest.mark.parametrize("ready_count", [1, STEP_ABLE, STEP_ABLE + 1, 3 * STEP_ABLE])
def test_many_consumers_are_served_in_turn_whatever_one_turn_looks_at(ready_count: int) -> None:
    consumers = [TakingConsumer(credit=1 << 30) for _ in range(3 * STEP_ABLE + 7)]
    queue = ready_queue(ready_count, *consumers)

    while queue.dispatch():
        pass

    assert len(queue.ready) == 0
    counts = [len(consumer.taken) for consumer in consumers]
    assert counts == [1] * ready_count + [0] * (len(consumers) - ready_count)


def test_of_many_messages_each_of_many_consumers_gets_some() -> None:
    consumers = [TakingConsumer(credit=1 << 30) for _ in range(3 * STEP_ABLE)]
    queue = ready_queue(30 * STEP_ABLE, *consumers)

    while queue.dispatch():
        pass

    counts = [len(consumer.taken) for consumer in consumers]
    assert sum(counts) == 30 * STEP_ABLE
    # What a turn leaves is shared out again, as after a slice that is over.
    assert min(counts) >= 3


def test_consumers_behind_those_that_one_turn_looks_at_get_what_these_cannot_take() -> None:
    """Consumers of one channel share its credit: the first ones use it up."""

    class Sharing(TakingConsumer):
        left = 3

        def __getattribute__(self, name: str) -> object:
            if name == "credit":
                return Sharing.left
            return super().__getattribute__(name)

        def __setattr__(self, name: str, value: object) -> None:
            if name == "credit" and hasattr(self, "runs"):
                Sharing.left = cast("int", value)
            super().__setattr__(name, value)

    sharing = [Sharing(credit=0) for _ in range(STEP_ABLE)]
    behind = TakingConsumer(credit=100)
    queue = ready_queue(10, *sharing, behind)

    while queue.dispatch():
        pass

    assert len(queue.ready) == 0
    assert sum(len(consumer.taken) for consumer in sharing) == 3
    assert len(behind.taken) == 7


def test_what_must_be_read_first_stops_the_turn() -> None:
    """The queue is marked again when the messages have been read."""
    consumer = TakingConsumer(credit=100)
    queue = ready_queue(6, consumer)
    queue.log_end = 6

    assert queue.dispatch() is False
    assert (consumer.taken, len(queue.ready)) == ([], 6)


def test_an_exclusive_consumer_is_seen() -> None:
    rotation = ConsumerRotation()
    assert (len(rotation), rotation.has_exclusive) == (0, False)
    consumer = cast("Consumer", TakingConsumer(credit=1, exclusive=True))
    rotation.add(consumer)
    assert (len(rotation), rotation.has_exclusive, list(rotation)) == (1, True, [consumer])
    rotation.remove(consumer)
    assert (len(rotation), rotation.has_exclusive) == (0, False)


def test_a_consumer_may_leave_while_all_are_looked_at() -> None:
    rotation = ConsumerRotation()
    for _ in range(3):
        rotation.add(cast("Consumer", TakingConsumer(credit=1)))

    for consumer in rotation:
        rotation.remove(consumer)

    assert len(rotation) == 0


@given(
    allowances=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    count=st.integers(0, 60),
    requeued=st.sets(st.integers(0, 19)),
    at_hand_max=st.integers(1, 20),
)
def test_every_message_goes_once_in_order_as_far_as_credit_reaches(
    allowances: list[int], count: int, requeued: set[int], at_hand_max: int
) -> None:
    consumers = [TakingConsumer(credit) for credit in allowances]
    queue = ReadyQueue(FifoOrder(20), at_hand_max=at_hand_max)
    for offset in requeued:
        queue.ready.requeue(offset, offset + 1)
    queue.ready.extend(20 + count)
    queue.serve(*consumers)

    turns = 0
    while queue.dispatch():
        turns += 1
        assert turns < 200

    wanted = [(offset, True) for offset in sorted(requeued)]
    wanted += [(offset, False) for offset in range(20, 20 + count)]
    taken = sorted(each for consumer in consumers for each in consumer.taken)
    assert taken == wanted[: sum(allowances)]
    assert all(consumer.taken == sorted(consumer.taken) for consumer in consumers)


@dataclass(eq=False)
class FailingConsumer(TakingConsumer):
    """Cannot be sent anything: a mistake of ours."""

    def deliver(self, first_offset: int, messages: list[bytes], *, redelivered: bool) -> None:
        raise LookupError("a mistake")


def test_what_could_not_be_sent_is_ready_as_it_was() -> None:
    queue = ready_queue(10, FailingConsumer(credit=4))
    queue.ready.take(2)
    queue.ready.requeue(0, 2)
    with pytest.raises(LookupError):
        queue.dispatch()
    ready = [(part.start, part.end, part.redelivered) for part in queue.ready.take_all()]
    assert ready == [(0, 2, True), (2, 10, False)]


def test_what_could_not_be_made_ready_for_sending_stays() -> None:
    queue = ready_queue(10, TakingConsumer(credit=4))
    queue.ready.take(2)
    queue.ready.requeue(0, 2)

    def fail(start: int, messages: list[bytes], *, redelivered: bool) -> list[bytes]:
        raise LookupError("a mistake")

    queue.as_delivered = fail  # type: ignore[method-assign]
    with pytest.raises(LookupError):
        queue.dispatch()
    assert len(queue.ready) == 10


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=20),
    st.lists(st.tuples(st.integers(0, 19), st.booleans())),
)
def test_consumers_stand_by_priority_and_in_turn(
    added: list[tuple[int, bool]], picked: list[tuple[int, bool]]
) -> None:
    """Compare with a plain list: a consumer that was picked once is served, then removed.

    Or it is put aside, which it is when it leaves or comes back.
    """
    rotation = ConsumerRotation()
    model: list[TakingConsumer] = []
    for priority, exclusive in added:
        model.append(TakingConsumer(0, priority=priority, exclusive=exclusive))
        rotation.add(cast("Consumer", model[-1]))
    consumers, served, aside = list(model), set[int](), set[int]()
    for at, is_about_aside in picked:
        if at >= len(consumers) or (consumers[at] not in model and at not in aside):
            continue
        if at in aside:
            aside.remove(at)
            if is_about_aside:
                rotation.take_back(cast("Consumer", consumers[at]))
                model.append(consumers[at])
            else:
                rotation.remove(cast("Consumer", consumers[at]))
        elif is_about_aside:
            aside.add(at)
            model.remove(consumers[at])
            rotation.put_aside([cast("Consumer", consumers[at])])
        elif at in served:
            model.remove(consumers[at])
            rotation.remove(cast("Consumer", consumers[at]))
        else:
            served.add(at)
            model.remove(consumers[at])
            model.append(consumers[at])
            rotation.serve(cast("Consumer", consumers[at]))
        ordered = sorted(model, key=lambda consumer: -consumer.priority)
        assert [one for level in rotation.levels for one in level] == cast(
            "list[Consumer]", ordered
        )
        present = [*model, *(consumers[each] for each in aside)]
        assert rotation.has_exclusive == any(consumer.exclusive for consumer in present)
        assert len(rotation) == rotation.count == len(present)
    priorities = [{consumer.priority for consumer in level} for level in rotation.levels]
    assert all(len(each) == 1 for each in priorities)


def test_a_new_priority_is_compared_with_few_others() -> None:
    compared = 0

    class Counted(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < int(other)

        def __neg__(self) -> "Counted":
            return Counted(-int(self))

        def __hash__(self) -> int:
            return int(self)

    rotation = ConsumerRotation()
    consumers = [TakingConsumer(0, priority=Counted(n * 7 % 1009)) for n in range(1009)]
    for consumer in consumers:
        rotation.add(cast("Consumer", consumer))
    for consumer in consumers:
        rotation.remove(cast("Consumer", consumer))

    assert compared <= 2 * 1009 * 11
