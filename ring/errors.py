"""What can go wrong with a ring: only misuse by its owner."""

from __future__ import annotations


class RingError(Exception):
    """Base of the ring's errors."""


class SequenceNotHeldError(RingError):
    """A sequence was asked for that the ring does not hold (any more, or yet).

    Attributes:
        sequence: The sequence asked for.
        window_start: Oldest sequence held (inclusive).
        cursor: End of what was published (exclusive).
    """

    def __init__(self, sequence: int, window_start: int, cursor: int) -> None:
        super().__init__(f"sequence {sequence} is not in the window [{window_start}, {cursor})")
        self.sequence = sequence
        self.window_start = window_start
        self.cursor = cursor
