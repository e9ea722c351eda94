"""The loop turn: what many small events ask for is done once, at the end of the turn.

Everything that arrives in one turn of the event loop only marks what it touched. At the
end of the turn each marked queue writes its journal and dispatches once, and each marked
channel confirms once. This is where the batches come from, and why a lone publisher never
waits for a timer: its turn ends as soon as its input is drained.

Who reads a log without taking from it may be one of thousands, and all of them may have something
to read at once: they have low priority, and get a part of each turn, at its end.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.turn_watch import TurnWatch

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

LOW_PRIORITY_SECONDS: Final = 0.005
"""What tasks of low priority get of one turn, in seconds; one of them always runs."""


class TurnTask(Protocol):
    """Something that has work to do once at the end of a turn."""

    def run_turn(self) -> None:
        """Do it; may mark more, which then runs in the next turn."""


class Timer(Protocol):
    """Something that will happen later, unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen; without effect when it has happened."""


class Turn:
    """Collects tasks and runs each once when the loop has read what there was to read.

    Args:
        call_soon: The event loop's own, so that the broker needs no asyncio.
        call_later: The event loop's own; takes seconds first.
        watch: Learns how long each task takes; None: a watch that nothing reads.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], Timer],
        watch: TurnWatch | None = None,
    ) -> None:
        self._watch = TurnWatch() if watch is None else watch
        self._call_soon = call_soon
        self._call_later = call_later
        # A dict, for its order: first marked, first run.
        self._marked: dict[TurnTask, None] = {}
        self._low_priority: OrderedDict[TurnTask, None] = OrderedDict()
        self._is_scheduled = False

    def mark(self, task: TurnTask) -> None:
        """Run `task` at the end of this turn; marking twice runs it once."""
        self._marked[task] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def schedule_low_priority(self, task: TurnTask) -> None:
        """Run `task` behind all others at the end of this turn, or of one that has time for it.

        Those that wait are run in the order of their marks; marking twice runs it once.
        """
        self._low_priority[task] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def mark_after(self, seconds: float, task: TurnTask) -> Timer:
        """Mark `task` when `seconds` have passed: never sooner, perhaps a little later.

        The timer belongs to the caller, who cancels it when the task is no longer wanted.
        """
        return self._call_later(seconds, partial(self.mark, task))

    def _run(self) -> None:
        tasks, self._marked = self._marked, {}
        self._is_scheduled = False
        began_seconds = perf_counter()
        for task in tasks:
            began_seconds = self._run_one(task, began_seconds)
        if self._low_priority:
            self._run_low_priority(began_seconds)

    def _run_low_priority(self, began_seconds: float) -> None:
        end_seconds = began_seconds + LOW_PRIORITY_SECONDS
        # What is marked meanwhile runs in the next turn.
        for _ in range(len(self._low_priority)):
            task, _ = self._low_priority.popitem(last=False)
            began_seconds = self._run_one(task, began_seconds)
            if began_seconds >= end_seconds:
                break
        if self._low_priority and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _run_one(self, task: TurnTask, began_seconds: float) -> float:
        """Run a task that begins now; return when it ended, by `perf_counter`."""
        try:
            task.run_turn()
        except Exception:
            # A mistake of ours in one queue must not cost the others their turn.
            logger.exception("turn failed task=%r", task)
        ended_seconds = perf_counter()
        self._watch.note(ended_seconds - began_seconds, task)
        return ended_seconds
