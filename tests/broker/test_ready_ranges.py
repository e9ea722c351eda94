"""Ready ranges over many chunks are what a set of offsets is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker import sorted_runs
from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.orders.ready_ranges import ReadyRange, ReadyRanges

OFFSETS = 120
starts = st.integers(0, OFFSETS - 1)
lengths = st.integers(1, 11)
operations = st.one_of(
    st.tuples(st.just("add"), starts, lengths),
    st.tuples(st.just("cut"), starts, lengths),
    st.tuples(st.just("take"), st.just(0), lengths),
)


@given(steps=st.lists(operations, max_size=120))
def test_any_operations_over_small_chunks(steps: list[tuple[str, int, int]]) -> None:
    model: set[int] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "CHUNK_MAX", 3)
        ranges = ReadyRanges()
        for kind, start, length in steps:
            offsets = set(range(start, start + length))
            first = ranges.first()
            if kind == "add" and not offsets & model:
                ranges.add(start, start + length, redelivered=start % 2 == 0)
                model |= offsets
            elif kind == "cut":
                cut = {at for each in ranges.cut(start, start + length) for at in members(each)}
                assert cut == offsets & model
                model -= offsets
            elif kind == "take" and first is not None:
                taken = ranges.take(min(length, len(first)))
                assert taken.start == min(model)
                model -= set(range(taken.start, taken.end))
            present = ranges.within(0, OFFSETS + 12)
            assert sorted(model) == [at for each in present for at in range(*each)]
            assert len(ranges) == len(model)
            assert [(at, at + 1) for at in sorted(model)] == [
                (at, at + 1) for at in range(OFFSETS + 12) if ranges.within(at, at + 1)
            ]


def members(ready: ReadyRange) -> range:
    return range(ready.start, ready.end)


def test_a_cut_beside_the_border_of_a_chunk_loses_no_message() -> None:
    """A part that stayed was put into the chunk below, and the message after it came 512 times."""
    order = FifoOrder()
    order.extend(4_000)
    order.take(4_000)
    for offset in range(0, 4_000, 2):
        order.requeue_all([(offset, offset + 1)])
    order.requeue_all([(1023, 1024)])

    expired = order.take_range(1023, 1024)

    assert [(each.start, each.end) for each in expired] == [(1023, 1024)]
    taken: list[int] = []
    while (ready := order.peek()) is not None:
        run = order.take(min(len(ready), 1))
        taken.append(run.start)
    assert taken == list(range(0, 4_000, 2))
