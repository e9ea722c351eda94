"""Which operations of a disk fail in this run of a test: some of each kind, or every one.

A test that lets each of hundreds of operations fail proves most of what it proves with a part of
them, if that has every kind: `make test` takes part, always the same, and says so. The long runs
take all: those of the fault tests (`FAULT_STRIDE=1`), and those with `HYPOTHESIS_PROFILE=long`.
"""

import os
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeVar

TAKES_ALL = os.environ.get("FAULT_STRIDE") == "1" or os.environ.get("HYPOTHESIS_PROFILE") == "long"
"""Whether this run leaves nothing out."""
ItemT = TypeVar("ItemT")


def some_of_each_kind(kinds: Sequence[Hashable], turn: int, stride: int) -> list[int]:
    """Return the numbers of the operations that a run takes, in order.

    Args:
        kinds: Of each operation, in order.
        turn: Number of the case of a test: with `stride` cases, each operation is in one of them.
        stride: Of each kind, every how many are taken; one at least.
    """
    if TAKES_ALL:
        return list(range(len(kinds)))
    numbers = defaultdict[Hashable, list[int]](list)
    for number, kind in enumerate(kinds):
        numbers[kind].append(number)
    return sorted(
        number
        for each in numbers.values()
        for number in each[turn % min(stride, len(each)) :: stride]
    )


def some_items(
    items: Sequence[ItemT], kinds: Sequence[Hashable], turn: int, stride: int
) -> list[ItemT]:
    """Return those of the items whose numbers `some_of_each_kind` returns."""
    return [items[number] for number in some_of_each_kind(kinds, turn, stride)]
