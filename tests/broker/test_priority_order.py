"""Priorities, and the octets that are ready, against a plain dictionary of what is ready."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp_server.broker.orders.byte_counted_order import ByteCountedOrder
from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.orders.offset_array import OffsetArray
from amqp_server.broker.orders.priority_level import WINDOW_OFFSETS
from amqp_server.broker.orders.priority_order import PriorityOrder
from amqp_server.broker.orders.ready_ranges import ReadyRange


def prioritised(*priorities: int, max_priority: int = 9) -> PriorityOrder:
    known = OffsetArray("B", 0)
    known.extend(priorities)
    order = PriorityOrder(known, max_priority)
    order.extend(len(priorities))
    return order


def measured(*sizes: int) -> ByteCountedOrder:
    known = OffsetArray("I", 0)
    known.extend(sizes)
    order = ByteCountedOrder(FifoOrder(), known)
    order.extend(len(sizes))
    return order


def all_taken(order: PriorityOrder) -> list[int]:
    ranges = [order.take(len(ready)) for ready in iter(order.peek, None)]
    return [offset for taken in ranges for offset in range(taken.start, taken.end)]


def test_the_highest_priority_goes_first_and_each_in_order_of_publishing() -> None:
    assert all_taken(prioritised(0, 5, 0, 5, 9)) == [4, 1, 3, 0, 2]


def test_a_priority_above_the_highest_is_the_highest() -> None:
    assert all_taken(prioritised(3, 200, 4, 4, max_priority=4)) == [1, 2, 3, 0]


def test_what_comes_back_is_before_its_equals_and_behind_its_betters() -> None:
    order = prioritised(1, 1, 2)
    order.take(1)
    order.take(1)
    order.requeue(0, 1)

    assert order.take(1) == ReadyRange(0, 1, redelivered=True)


def test_a_purge_of_a_queue_with_priorities_leaves_nothing() -> None:
    order = prioritised(1, 2, 1)

    assert sum(map(len, order.take_all())) == 3
    assert (len(order), order.peek()) == (0, None)


def test_octets_follow_what_is_ready() -> None:
    order = measured(10, 20, 30)

    assert order.ready_bytes == 60
    order.take(2)
    assert order.ready_bytes == 30
    order.requeue(1, 2)
    assert order.ready_bytes == 50
    assert order.take_range(2, 3) == [ReadyRange(2, 3, redelivered=False)]
    assert order.ready_bytes == 20
    order.take_all()
    assert order.ready_bytes == 0


@pytest.mark.parametrize(("octets", "count"), [(1, 1), (10, 1), (11, 2), (30, 2), (31, 3), (99, 3)])
def test_as_many_go_as_hold_the_octets(octets: int, count: int) -> None:
    assert measured(10, 20, 30).count_to_free(octets) == count


def test_numbers_below_the_floor_are_forgotten_and_the_others_kept() -> None:
    numbers = OffsetArray("I", 100)
    numbers.extend(range(10_000))

    numbers.forget(9_000)

    assert list(numbers.numbers(9_000, 9_003)) == [8_900, 8_901, 8_902]
    with pytest.raises(AssertionError, match="no number"):
        numbers.numbers(100, 101)


def test_offsets_without_a_message_have_the_number_zero() -> None:
    numbers = OffsetArray("I", 5)
    numbers.fill(7)
    numbers.extend([3])

    assert list(numbers.numbers(5, 8)) == [0, 0, 3]


def ranges_of(order: PriorityOrder) -> list[int]:
    """Return how many ranges each level keeps."""
    return [len(level.ranges()) for level in order._levels]


def test_messages_of_two_priorities_in_turn_are_a_range_for_each() -> None:
    """They were a range for each message, half a million objects."""
    order = prioritised(*[0, 1] * 5_000, max_priority=1)

    assert ranges_of(order) == [1, 1]
    for _ in range(3_000):
        order.take(1)
    assert ranges_of(order) == [1, 1]
    order.requeue_all([(offset, offset + 1) for offset in range(1, 6_000, 2)])
    assert ranges_of(order) == [1, 2], "what was delivered before is apart"
    assert order.take_range(0, 10_000) == [
        ReadyRange(0, 1, redelivered=False),
        *(ReadyRange(at, at + 1, redelivered=at % 2 == 1) for at in range(1, 6_000)),
        ReadyRange(6_000, 10_000, redelivered=False),
    ]
    assert (len(order), ranges_of(order)) == (0, [0, 0])


def test_what_leaves_from_one_level_splits_no_range_of_another() -> None:
    """A message that expired split the ranges of all levels, hundreds of them."""
    order = prioritised(*[at % 10 for at in range(5_000)])

    for offset in range(1_000, 2_000, 10):
        assert order.take_range(offset, offset + 1) == [
            ReadyRange(offset, offset + 1, redelivered=False)
        ]
        assert order.within(offset, offset + 1) == []
    assert ranges_of(order) == [2, *[1] * 9]
    assert len(order) == 4_900


def test_a_range_below_the_known_messages_has_none() -> None:
    known = OffsetArray("B", 100)
    known.extend([1, 2])
    order = PriorityOrder(known, 9, 100)
    order.extend(102)

    assert order.within(0, 100) == []
    assert order.take_range(90, 101) == [ReadyRange(100, 101, redelivered=False)]
    assert order.take_range(101, 5_000) == [ReadyRange(101, 102, redelivered=False)]


def test_a_long_run_goes_at_once_and_a_far_one_is_found() -> None:
    order = prioritised(*[1] * 3_000, *[0] * 9_000, *[1] * 10)

    assert [order.take(3_000), order.take(10)] == [
        ReadyRange(0, 3_000, redelivered=False),
        ReadyRange(12_000, 12_010, redelivered=False),
    ]
    assert all_taken(order) == [*range(3_000, 12_000)]


shares = st.floats(0, 1)


class PriorityOrderMachine(RuleBasedStateMachine):
    """The ready offset with the highest priority goes first, the lowest of those."""

    window = WINDOW_OFFSETS

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module in ("priority_order", "priority_level"):
            name = f"amqp_server.broker.orders.{module}.WINDOW_OFFSETS"
            self.patch.setattr(name, self.window)
        self.priorities = OffsetArray("B", 0)
        self.sizes = OffsetArray("I", 0)
        self.order = ByteCountedOrder(PriorityOrder(self.priorities, 3), self.sizes)
        self.known: list[int] = []
        self.ready: dict[int, bool] = {}
        self.unacked: set[int] = set()

    @rule(priorities=st.lists(st.integers(0, 5), min_size=1, max_size=8))
    def publish(self, priorities: list[int]) -> None:
        start = len(self.known)
        self.priorities.extend(priorities)
        self.sizes.extend(range(start, start + len(priorities)))
        self.known += priorities
        self.order.extend(len(self.known))
        self.ready.update(dict.fromkeys(range(start, len(self.known)), False))

    @precondition(lambda self: self.ready)
    @rule(share=shares)
    def deliver(self, share: float) -> None:
        first = self.order.peek()
        assert first is not None
        taken = self.order.take(1 + int(share * (len(first) - 1)))
        for offset in range(taken.start, taken.end):
            assert offset == min(self.ready, key=lambda ready: (-min(self.known[ready], 3), ready))
            assert self.ready.pop(offset) == taken.redelivered
            self.unacked.add(offset)

    @precondition(lambda self: self.unacked)
    @rule(share=shares)
    def requeue(self, share: float) -> None:
        offset = sorted(self.unacked)[int(share * (len(self.unacked) - 1))]
        self.unacked.remove(offset)
        self.ready[offset] = True
        self.order.requeue(offset, offset + 1)

    @rule(kept=st.sets(st.integers(0, 60)))
    def requeue_all(self, kept: set[int]) -> None:
        returned = sorted(self.unacked - kept)
        self.unacked &= kept
        self.ready.update(dict.fromkeys(returned, True))
        self.order.requeue_all([(offset, offset + 1) for offset in returned])

    @rule(low=shares, count=st.integers(1, 9))
    def leave_from_anywhere(self, low: float, count: int) -> None:
        start = int(low * len(self.known))
        taken = self.order.take_range(start, start + count)
        offsets = [offset for ready in taken for offset in range(ready.start, ready.end)]
        assert offsets == sorted(o for o in self.ready if start <= o < start + count)
        for offset in offsets:
            del self.ready[offset]

    @rule()
    def leave_together(self) -> None:
        taken = {at: run.redelivered for run in self.order.take_all() for at in range_of(run)}
        assert taken == self.ready
        self.ready.clear()

    @rule(low=shares, count=st.integers(1, 99))
    def ask_for_some(self, low: float, count: int) -> None:
        start = int(low * len(self.known))
        found = self.order.within(start, start + count)
        assert [offset for ready in found for offset in range(*ready)] == sorted(
            offset for offset in self.ready if start <= offset < start + count
        )

    @invariant()
    def counts_and_octets_agree(self) -> None:
        assert len(self.order) == len(self.ready)
        assert self.order.ready_bytes == sum(self.ready)

    @invariant()
    def flags_agree(self) -> None:
        found = self.order.redelivered_ranges()
        assert [offset for ready in found for offset in range(*ready)] == sorted(
            offset for offset, redelivered in self.ready.items() if redelivered
        )

    def teardown(self) -> None:
        self.patch.undo()


def range_of(ready: ReadyRange) -> range:
    return range(ready.start, ready.end)


class NarrowWindowMachine(PriorityOrderMachine):
    """The same, where ranges span several windows, and gaps are too wide to join over."""

    window = 3


TestPriorityOrder = PriorityOrderMachine.TestCase
TestNarrowWindow = NarrowWindowMachine.TestCase
