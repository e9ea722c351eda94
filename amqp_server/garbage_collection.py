"""When Python's garbage collector runs, and which objects it walks.

The collector frees objects that refer to each other in a cycle. For that it walks all objects of a
generation in one piece, on the event loop's thread. A hundred thousand queues are ten million
objects, which takes seconds. So no object is walked more than a few times: a full collection
*freezes* what is alive after it, and no later collection walks that.

An object that dies after it was frozen must not be in a cycle, or its memory is lost. That is why
queues, connections and their parts refer to each other in one direction only, or weakly. The test
`tests/system/test_freed_at_once.py` shows it.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

YOUNG_OBJECTS: Final = 3_000
"""New objects after which the collector walks the youngest generation (Python's default: 700).

A client that declares thousands of queues would cost the server a quarter of its time otherwise.
"""
YOUNG_ROUNDS: Final = 1
"""Collections of one generation before the next one collects the next older one too.

A full collection then walks some 12,000 objects, those of 150 queues: less than 10 ms.
"""
_OLDEST: Final = 2


def collect_in_steps() -> None:
    """Freeze what exists, and from now on what is alive after each full collection."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, YOUNG_ROUNDS)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


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


def _freeze_survivors(phase: Literal["start", "stop"], info: Mapping[str, int]) -> None:
    """Freeze what a full collection has left; a callback for `gc.callbacks`."""
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()
