"""The plain order against a plain dictionary of what is ready."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.orders.ready_ranges import ReadyRange


def test_an_order_begins_empty_at_its_next_offset() -> None:
    order = FifoOrder(7)

    assert (order.next_offset, order.end, len(order), order.peek()) == (7, 7, 0, None)
    assert order.take_all() == []


def test_new_messages_go_in_the_order_of_publishing() -> None:
    order = FifoOrder()
    order.extend(5)

    assert order.take(2) == ReadyRange(0, 2, redelivered=False)
    assert order.peek() == ReadyRange(2, 5, redelivered=False)
    assert (order.next_offset, len(order)) == (2, 3)


def test_what_comes_back_goes_first_lowest_first() -> None:
    order = FifoOrder()
    order.extend(10)
    order.take(10)
    order.requeue(7, 8)
    order.requeue(2, 4)
    order.extend(12)

    taken = [order.take(len(ready)) for ready in iter(order.peek, None)]

    assert taken == [ReadyRange(2, 4, True), ReadyRange(7, 8, True), ReadyRange(10, 12, False)]


def test_neighbours_that_come_back_are_one_range_again() -> None:
    order = FifoOrder()
    order.extend(6)
    order.take(6)
    for offset in (0, 2, 4, 3, 1, 5):
        order.requeue(offset, offset + 1)

    assert order.peek() == ReadyRange(0, 6, redelivered=True)
    assert len(order) == 6


def test_ranges_that_differ_in_redelivery_stay_apart() -> None:
    order = FifoOrder(10)
    order.requeue(5, 10, redelivered=False)
    order.requeue(0, 5, redelivered=True)

    assert order.take(5) == ReadyRange(0, 5, redelivered=True)
    assert order.take(5) == ReadyRange(5, 10, redelivered=False)


def test_a_part_of_a_range_can_be_taken() -> None:
    order = FifoOrder(10)
    order.requeue(0, 10)

    assert order.take(3) == ReadyRange(0, 3, redelivered=True)
    assert order.peek() == ReadyRange(3, 10, redelivered=True)


@pytest.mark.parametrize(("start", "end"), [(0, 4), (3, 5), (2, 3), (0, 10)])
def test_giving_back_what_is_ready_already_is_a_mistake(start: int, end: int) -> None:
    order = FifoOrder(10)
    order.requeue(2, 4)

    with pytest.raises(AssertionError, match="ready already"):
        order.requeue(start, end)


def test_giving_back_what_was_never_taken_is_a_mistake() -> None:
    order = FifoOrder()
    order.extend(10)
    order.take(5)

    with pytest.raises(AssertionError, match="never taken"):
        order.requeue(4, 6)


@pytest.mark.parametrize("count", [0, 4])
def test_taking_more_than_the_first_range_is_a_mistake(count: int) -> None:
    order = FifoOrder(10)
    order.requeue(0, 3)
    order.extend(20)

    with pytest.raises(AssertionError, match="took more"):
        order.take(count)


def test_a_purge_takes_everything_in_order() -> None:
    order = FifoOrder(10)
    order.requeue(0, 3)
    order.extend(20)

    assert order.take_all() == [ReadyRange(0, 3, True), ReadyRange(10, 20, False)]
    assert (len(order), order.next_offset, order.peek()) == (0, 20, None)


def test_a_range_that_is_lost_leaves_what_is_around_it() -> None:
    order = FifoOrder(10)
    order.requeue(0, 6)
    order.requeue(8, 9)
    order.extend(20)

    assert order.take_range(2, 4) == [ReadyRange(2, 4, True)]
    assert order.take_range(5, 12) == [
        ReadyRange(5, 6, True),
        ReadyRange(8, 9, True),
        ReadyRange(10, 12, False),
    ]

    assert order.take_all() == [
        ReadyRange(0, 2, True),
        ReadyRange(4, 5, True),
        ReadyRange(12, 20, False),
    ]


counts = st.integers(1, 12)
shares = st.floats(0, 1)


class PlainOrderMachine(RuleBasedStateMachine):
    """What is ready maps to whether it was delivered before; the lowest offset goes first."""

    def __init__(self) -> None:
        super().__init__()
        self.order = FifoOrder()
        self.ready: dict[int, bool] = {}
        self.unacked: set[int] = set()
        self.delivered: set[int] = set()
        self.end = 0

    @rule(count=counts)
    def publish(self, count: int) -> None:
        self.ready.update(dict.fromkeys(range(self.end, self.end + count), False))
        self.end += count
        self.order.extend(self.end)

    @precondition(lambda self: self.ready)
    @rule(count=counts)
    def deliver(self, count: int) -> None:
        first = self.order.peek()
        assert first is not None
        taken = self.order.take(min(count, len(first)))
        assert len(taken) == min(count, len(first))
        self.took(taken)

    def took(self, taken: ReadyRange) -> None:
        for offset in range(taken.start, taken.end):
            assert offset == min(self.ready)
            assert self.ready.pop(offset) == taken.redelivered
            self.unacked.add(offset)

    @precondition(lambda self: self.unacked)
    @rule(share=shares, count=counts, redelivered=st.booleans())
    def requeue(self, share: float, count: int, redelivered: bool) -> None:
        start = end = sorted(self.unacked)[int(share * (len(self.unacked) - 1))]
        while end in self.unacked and end - start < count:
            self.unacked.remove(end)
            self.ready[end] = redelivered
            end += 1
        self.order.requeue(start, end, redelivered=redelivered)

    @rule(kept=st.sets(st.integers(0, 60)), low=shares)
    def requeue_all(self, kept: set[int], low: float) -> None:
        start = int(low * self.end)
        ranges: list[tuple[int, int]] = []
        for offset in sorted(self.unacked - kept):
            if offset < start:
                continue
            self.unacked.remove(offset)
            self.ready[offset] = True
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = ranges[-1][0], offset + 1
            else:
                ranges.append((offset, offset + 1))
        self.order.requeue_all(ranges)

    @precondition(lambda self: self.unacked)
    @rule(share=shares)
    def acknowledge(self, share: float) -> None:
        self.unacked.remove(sorted(self.unacked)[int(share * (len(self.unacked) - 1))])

    @precondition(lambda self: len(self.ready) > 20)
    @rule()
    def purge(self) -> None:
        for taken in self.order.take_all():
            self.took(taken)
        assert not self.ready

    @rule(low=shares, count=counts)
    def leave_from_anywhere(self, low: float, count: int) -> None:
        start = int(low * self.end)
        for taken in self.order.take_range(start, start + count):
            for offset in range(taken.start, taken.end):
                assert start <= offset < start + count
                assert self.ready.pop(offset) == taken.redelivered
        assert not any(offset in self.ready for offset in range(start, start + count))

    @invariant()
    def the_lowest_run_alike_is_next(self) -> None:
        assert len(self.order) == len(self.ready)
        first = self.order.peek()
        if not self.ready:
            assert first is None
            return
        assert first is not None
        start = end = min(self.ready)
        redelivered = self.ready[start]
        while self.ready.get(end) == redelivered and (end >= self.order.next_offset) == (
            start >= self.order.next_offset
        ):
            end += 1
        assert first == ReadyRange(start, end, redelivered)


TestPlainOrderMachine = PlainOrderMachine.TestCase
