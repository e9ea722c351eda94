"""Measures how long pieces of work keep the event loop from everything else.

Each connection and each queue waits for whatever the loop does now. A piece of work that takes long
is a *stall*; the watch counts stalls and keeps the last ones, with what was at work, so that an
operator can see who waited for whom.
"""

from __future__ import annotations

import gc
import logging
from bisect import bisect_left
from collections import deque
from time import perf_counter, time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.base.time_slice import Stopwatch

logger = logging.getLogger("amqp_server.broker.turn_watch")

STALL_SECONDS: Final = 0.02
"""Work that takes longer is counted as a stall and kept."""
LOGGED_SECONDS: Final = 0.1
"""Work that takes longer is logged too."""
LOG_PAUSE_SECONDS: Final = 1.0
"""Time between two such log lines at least."""
KEPT_STALLS: Final = 16
"""Stalls that are kept, the last ones."""
BOUNDS_SECONDS: Final[tuple[float, ...]] = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
)
"""Upper bounds of the histogram's buckets; what takes longer is in one more."""


class Stall(NamedTuple):
    """One piece of work that took long.

    Attributes:
        at_seconds: When it ended, Unix time.
        seconds: How long it took.
        what: The client and the method, the queue, or whatever else was at work.
    """

    at_seconds: float
    seconds: float
    what: str


class TurnWatch:
    """The measured work of one event loop; the loop owns it.

    Args:
        stopwatch: Measures collections, and the time between two lines in the log.

    Attributes:
        busy_seconds: Time of all pieces of work; the turn adds it.
        stall_count: Pieces of work above `STALL_SECONDS`.
        longest_seconds: The longest piece of work.
        stalls: The last stalls, oldest first.
        buckets: Pieces of work by duration: one count for each of `BOUNDS_SECONDS`, and one above.
    """

    def __init__(self, stopwatch: Stopwatch = perf_counter) -> None:
        self._stopwatch = stopwatch
        self.busy_seconds = 0.0
        self.stall_count = 0
        self.longest_seconds = 0.0
        self.stalls: deque[Stall] = deque(maxlen=KEPT_STALLS)
        self.buckets = [0] * (len(BOUNDS_SECONDS) + 1)
        self._silent_until_seconds = 0.0
        self._unlogged_count = 0
        self._collection_began_seconds = 0.0

    def record(self, seconds: float, what: object) -> None:
        """Record a piece of work that has ended.

        Args:
            seconds: How long it took.
            what: What was at work; its text is made only for a stall.
        """
        if seconds <= BOUNDS_SECONDS[0]:
            self.buckets[0] += 1
            return
        self.buckets[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        if seconds > STALL_SECONDS:
            self._record_stall(seconds, _text(what))

    def record_collection(self, phase: Literal["start", "stop"], info: Mapping[str, int]) -> None:
        """Record a garbage collection; a callback for `gc.callbacks`."""
        if phase == "start":
            self._collection_began_seconds = self._stopwatch()
            return
        seconds = self._stopwatch() - self._collection_began_seconds
        if seconds > STALL_SECONDS:
            self._record_stall(seconds, f"garbage collection generation={info['generation']}")

    def watch_collections(self) -> None:
        """Measure garbage collections too, from now on until `stop`."""
        gc.callbacks.append(self.record_collection)

    def stop(self) -> None:
        """Measure no garbage collections any more."""
        if self.record_collection in gc.callbacks:
            gc.callbacks.remove(self.record_collection)

    def _record_stall(self, seconds: float, what: str) -> None:
        self.stall_count += 1
        self.longest_seconds = max(self.longest_seconds, seconds)
        self.stalls.append(Stall(time(), seconds, what))
        if seconds <= LOGGED_SECONDS:
            return
        now_seconds = self._stopwatch()
        if now_seconds < self._silent_until_seconds:
            self._unlogged_count += 1
            return
        self._silent_until_seconds = now_seconds + LOG_PAUSE_SECONDS
        logger.warning(
            "event loop stalled seconds=%.3f by=%s unlogged_before=%d",
            seconds,
            what,
            self._unlogged_count,
        )
        self._unlogged_count = 0


def _text(what: object) -> str:
    if isinstance(what, str):
        return what
    work = getattr(what, "work", None)
    if work is not None:
        return str(work)
    kind, name = type(what).__name__, getattr(what, "name", None)
    vhost = getattr(getattr(what, "virtual_host", None), "name", None)
    parts = [kind, *([f"name={name!r}"] if name else []), *([f"vhost={vhost!r}"] if vhost else [])]
    return " ".join(parts)
