"""What has become of the messages of a queue, for those who look at them without taking them.

Said for runs of neighbours, from the queue's order and its settlement: no message has a state of
its own anywhere.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amqp_server.broker.queue import Queue


class MessageState(StrEnum):
    """Where a message is on its way through a queue."""

    READY = "ready"
    """It will be delivered."""
    UNACKED = "unacked"
    """A consumer has it, or it is on its way to a dead-letter exchange."""
    SETTLED = "settled"
    """It is done for good, and still in the log."""


class StateRun(NamedTuple):
    """Offsets `[start, end)` that are in one state."""

    start: int
    end: int
    state: MessageState


def message_states(queue: Queue, start: int, end: int) -> list[StateRun]:
    """Return the states of `[start, end)`: runs in order that touch and cover all of it.

    Costs what changes there, not how many messages there are.

    Args:
        queue: The queue; nothing changes in it.
        start: First offset.
        end: Exclusive, at most the queue's end; more than `start`, or there are no runs.
    """
    if start >= end:
        return []
    settlement = queue.settlement
    # Of a stream nothing leaves but by retention: whoever reads finds it ready.
    if queue.is_stream:
        return _runs(start, end, [(start, end)], [(start, end)])
    ready = merge(queue.loading.within(start, end), queue.ready.within(start, end))
    return _runs(start, end, settlement.unsettled_ranges(start, end), ready)


def _runs(
    start: int, end: int, unsettled: list[tuple[int, int]], ready: Iterable[tuple[int, int]]
) -> list[StateRun]:
    runs: list[StateRun] = []
    ready_ranges = iter(ready)
    ahead = next(ready_ranges, None)
    at = start
    for low, high in unsettled:
        _add(runs, at, low, MessageState.SETTLED)
        at = low
        while ahead is not None and ahead[0] < high:
            ready_start, ready_end = max(ahead[0], at), min(ahead[1], high)
            _add(runs, at, ready_start, MessageState.UNACKED)
            _add(runs, ready_start, ready_end, MessageState.READY)
            at = max(at, ready_end)
            if ahead[1] > high:
                break
            ahead = next(ready_ranges, None)
        _add(runs, at, high, MessageState.UNACKED)
        at = high
    _add(runs, at, end, MessageState.SETTLED)
    return runs


def _add(runs: list[StateRun], start: int, end: int, state: MessageState) -> None:
    if start >= end:
        return
    if runs and runs[-1].state is state and runs[-1].end == start:
        runs[-1] = StateRun(runs[-1].start, end, state)
    else:
        runs.append(StateRun(start, end, state))


def states_of(runs: Sequence[StateRun], offsets: Iterable[int]) -> Iterator[MessageState]:
    """Yield the state of each offset.

    Args:
        runs: In order; they cover all offsets.
        offsets: Increasing.
    """
    at = 0
    for offset in offsets:
        while offset >= runs[at].end:
            at += 1
        yield runs[at].state
