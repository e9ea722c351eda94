"""States of messages are told for all of a range, and agree with the queue's own parts."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.message_states import MessageState, states_of
from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.queue import Queue as BrokerQueue
from offsets.settlement import Settlement

END = 40


@st.composite
def queues(draw: st.DrawFn) -> tuple[Any, list[MessageState]]:
    """A queue with a plain order, and what each of its messages is."""
    states = draw(st.lists(st.sampled_from(MessageState), min_size=END, max_size=END))
    order = FifoOrder()
    order.extend(END)
    settlement = Settlement()
    taken = [at for at, state in enumerate(states) if state is not MessageState.READY]
    given_back = draw(st.sets(st.integers(0, END - 1)))
    for at in taken:
        order.take_range(at, at + 1)
    for at in sorted(given_back):
        # Delivered and back again: below the cursor now, if something behind it was taken.
        if states[at] is MessageState.READY and at < order.next_offset:
            order.take_range(at, at + 1)
            order.requeue(at, at + 1)
    for at in taken:
        if states[at] is MessageState.SETTLED:
            settlement.settle(at, at + 1)
    loading = SimpleNamespace(within=lambda _start, _end: [])
    queue = SimpleNamespace(ready=order, settlement=settlement, loading=loading)
    return queue, states


@pytest.mark.interpreted("a method without its class")
@given(queues(), st.integers(0, END), st.integers(0, END))
def test_every_message_has_the_state_that_it_has(
    made: tuple[Any, list[MessageState]], start: int, end: int
) -> None:
    queue, states = made
    runs = BrokerQueue.message_states(queue, start, end)
    assert [state for run in runs for state in [run.state] * (run.end - run.start)] == states[
        start:end
    ]
    assert all(one.end == next_.start for one, next_ in pairwise(runs))
    assert all(one.state is not next_.state for one, next_ in pairwise(runs))
    offsets = range(start, end, 3)
    assert list(states_of(runs, offsets)) == [states[offset] for offset in offsets]


@pytest.mark.interpreted("a method without its class")
def test_what_nobody_has_looked_at_yet_counts_as_ready() -> None:
    order = FifoOrder(10)
    loading = SimpleNamespace(within=lambda _start, _end: [(2, 5), (7, 10)])
    settlement = Settlement(2)
    queue: Any = SimpleNamespace(ready=order, settlement=settlement, loading=loading)
    assert [
        (run.start, run.end, str(run.state)) for run in BrokerQueue.message_states(queue, 0, 10)
    ] == [
        (0, 2, "settled"),
        (2, 5, "ready"),
        (5, 7, "unacked"),
        (7, 10, "ready"),
    ]
