"""States of a queue's messages, for readers that take nothing from the queue.

States are derived for runs of offsets from the queue's order and settlement. No message stores a
state of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from offsets.settlement import Settlement


class MessageState(StrEnum):
    """State of a message in a queue."""

    READY = "ready"
    """The queue will deliver it."""
    UNACKED = "unacked"
    """A consumer has it, or it is being forwarded to a dead-letter exchange."""
    SETTLED = "settled"
    """It is done for good, and still in the log."""


class StateRun(NamedTuple):
    """Offsets `[start, end)` with the same state."""

    start: int
    end: int
    state: MessageState


def message_states(
    settlement: Settlement, ready: Iterable[tuple[int, int]], start: int, end: int
) -> list[StateRun]:
    """Return the states of `[start, end)` as ascending runs that cover all of it.

    The cost grows with the number of changes of state, not of messages.

    Args:
        settlement: Settlement of the queue; it is not changed.
        ready: The ready parts of `[start, end)`, ascending and disjoint.
        start: First offset.
        end: Offset after the last one, at most the queue's end. If it is not above `start`,
            there are no runs.
    """
    if start >= end:
        return []
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
        runs: Ascending runs that cover all offsets.
        offsets: Offsets in ascending order.
    """
    at = 0
    for offset in offsets:
        while offset >= runs[at].end:
            at += 1
        yield runs[at].state
