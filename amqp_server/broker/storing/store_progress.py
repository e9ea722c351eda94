"""How far a store has come: the one value that it hands to its queue."""

from __future__ import annotations

from typing import NamedTuple


class StoreProgress(NamedTuple):
    """State of a store, as far as its queue acts on it.

    A queue compares it with the value before it, so what happened several times since then counts
    once.

    Attributes:
        readable_end: End of the offsets that readers may see (I9, exclusive).
        confirmed_end: All persistent messages below it may be confirmed (I3, exclusive).
        has_room: Whether publishers may send: no message waits for a slot, no spill is delayed.
        is_failed: Whether the log accepts no more writes.
        lost: Ranges of offsets that the log turned out not to have; each is reported once.
    """

    readable_end: int
    confirmed_end: int
    has_room: bool
    is_failed: bool
    lost: tuple[tuple[int, int], ...] = ()
