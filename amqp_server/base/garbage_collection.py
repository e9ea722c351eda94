"""When Python's garbage collector runs, and which objects it walks.

The collector frees objects that refer to each other in a cycle. For that it walks all objects of a
generation without a pause, on the event loop's thread. A hundred thousand queues are ten million
objects, which takes seconds. So no object is walked more than a few times: a full collection
*freezes* what is alive after it, and no later collection walks that.

Python collects when there are more new objects than dead ones by a number. While a client makes as
many objects as it frees of those that were frozen, that number is never reached: half a million
deliveries that return to their queue would be walked without a pause at last. So the turns count
too. The youngest objects are walked after a few milliseconds of work, and all that are not frozen
as soon as walking them costs a few milliseconds.

An object that dies after it was frozen must not be in a cycle, or its memory is lost. That is why
queues, connections and their parts refer to each other in one direction only: the owner passes
itself to the methods of its parts. The test `tests/system/test_freed_at_once.py` shows it.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from amqp_server.base.time_slice import Stopwatch

YOUNG_OBJECTS: Final = 1_000
"""New objects after which the collector walks the youngest generation (Python's default: 700).

With more, each collection is longer and there are fewer; all of them together take the same time.
"""
YOUNG_ROUNDS: Final = 10
"""Collections of one generation before Python collects the next older one too, without a turn."""
YOUNG_WORK_SECONDS: Final = 0.004
"""Work of the turns after which the youngest generation is walked, however few objects are new.

A client makes some ten thousand objects in that time, which are walked within 1 ms or two.
"""
WALK_SECONDS: Final = 0.001
"""Time of the younger collections after which a full one follows, which costs about as much."""
_OLDEST: Final = 2


class SteppedCollector:
    """Collects garbage in short steps; the process has one.

    Turns report their work to it. Until `start`, Python decides alone when it collects.

    Args:
        stopwatch: Measures the collections.
    """

    def __init__(self, stopwatch: Stopwatch = perf_counter) -> None:
        self._stopwatch = stopwatch
        self._is_started = False
        self._began_seconds = 0.0
        # Work since the last collection, of any generation.
        self._work_seconds = 0.0
        # Seconds of the younger collections since the last full one.
        self._walk_seconds = 0.0

    def start(self) -> None:
        """Freeze what exists, and from now on what is alive after each full collection."""
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, YOUNG_ROUNDS)
        if not self._is_started:
            self._is_started = True
            gc.callbacks.append(self._note_collection)

    def stop(self) -> None:
        """Leave the collector to Python; what is frozen stays so."""
        if self._is_started:
            self._is_started = False
            gc.callbacks.remove(self._note_collection)

    def note_work(self, seconds: float) -> None:
        """Collect if it is time to.

        Args:
            seconds: Time of the event loop that was worked since the last call.
        """
        self._work_seconds += seconds
        if self._work_seconds < YOUNG_WORK_SECONDS and self._walk_seconds < WALK_SECONDS:
            return
        if self._is_started and gc.isenabled():
            gc.collect(_OLDEST if self._walk_seconds >= WALK_SECONDS else 0)

    def _note_collection(self, phase: Literal["start", "stop"], info: Mapping[str, int]) -> None:
        """Measure a collection, and freeze what a full one has left; for `gc.callbacks`."""
        if phase == "start":
            self._began_seconds = self._stopwatch()
            return
        self._work_seconds = 0.0
        if info["generation"] == _OLDEST:
            self._walk_seconds = 0.0
            gc.freeze()
        else:
            self._walk_seconds += self._stopwatch() - self._began_seconds


collector: Final = SteppedCollector()
"""The collector of this process."""


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep the collector from running within the `with`; freeze what is alive at its end.

    A start makes objects that stay, and the process ends after a stop: there is little garbage to
    find. The collector would walk all objects again and again as their number grows, which was half
    of the time of a start with 20,000 queues. Without the freeze, the first collection after a
    start would walk all its objects, and the end of the process would free them one by one.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
