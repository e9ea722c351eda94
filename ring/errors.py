"""Errors of a ring; only misuse by its owner causes them."""

from __future__ import annotations


class RingError(Exception):
    """Base class of the ring's errors."""


class SequenceNotHeldError(RingError):
    """The ring does not hold the requested sequence, either not yet or not any more.

    Attributes:
        sequence: The requested sequence.
        window_start: Oldest sequence that the ring holds (inclusive).
        cursor: End of what was published (exclusive).
    """

    def __init__(self, sequence: int, window_start: int, cursor: int) -> None:
        super().__init__(f"sequence {sequence} is not in the window [{window_start}, {cursor})")
        self.sequence = sequence
        self.window_start = window_start
        self.cursor = cursor
