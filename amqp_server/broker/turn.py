"""The loop turn: runs the work that many small events ask for once, at the end of the turn.

Input that arrives in one turn of the event loop only marks the queues and channels that it
touches. At the end of the turn each marked queue writes its journal and dispatches once, and each
marked channel confirms once. So batches form without a timer: the turn of a lone publisher ends
as soon as its input is read.

Readers that take nothing from a log (subscriptions) may number thousands, all with something to
read at once. They run with low priority, in a limited part of each turn, after all other tasks.
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
"""Time that low-priority tasks get in one turn, in seconds; at least one of them runs."""


class TurnTask(Protocol):
    """Something that has work to do once at the end of a turn."""

    def run_turn(self) -> None:
        """Do the work. Tasks that it marks run in the next turn."""


class Timer(Protocol):
    """A call that the event loop makes later, unless it is cancelled."""

    def cancel(self) -> None:
        """Cancel the call; has no effect after it was made."""


class Turn:
    """Collects tasks and runs each once, after the event loop has read all available input.

    Args:
        call_soon: Method of the event loop, passed in so that the broker needs no asyncio.
        call_later: Method of the event loop; takes the delay in seconds first.
        watch: Learns how long each task takes; None: a watch that nothing reads.

    Attributes:
        number: Grows before marked tasks run. While it stays the same, every task that was marked
            is still marked, so marking it again changes nothing.
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
        # A dict keeps the order: the task that was marked first runs first.
        self._marked: dict[TurnTask, None] = {}
        self._low_priority: OrderedDict[TurnTask, None] = OrderedDict()
        self._is_scheduled = False
        self.number = 0

    def mark(self, task: TurnTask) -> None:
        """Run `task` at the end of this turn; marking twice runs it once."""
        self._marked[task] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def schedule_low_priority(self, task: TurnTask) -> None:
        """Run `task` after all others at the end of this turn, or of a later turn with time left.

        Low-priority tasks run in the order of their marks; marking twice runs a task once.
        """
        self._low_priority[task] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def mark_after(self, seconds: float, task: TurnTask) -> Timer:
        """Mark `task` after `seconds` have passed: never earlier, perhaps a little later.

        The caller owns the timer and cancels it when it no longer wants the task.
        """
        return self._call_later(seconds, partial(self.mark, task))

    def _run(self) -> None:
        self.number += 1
        tasks, self._marked = self._marked, {}
        self._is_scheduled = False
        began_seconds = perf_counter()
        for task in tasks:
            began_seconds = self._run_one(task, began_seconds)
        if self._low_priority:
            self._run_low_priority(began_seconds)

    def _run_low_priority(self, began_seconds: float) -> None:
        end_seconds = began_seconds + LOW_PRIORITY_SECONDS
        # Tasks that are marked during this loop run in the next turn.
        for _ in range(len(self._low_priority)):
            self.number += 1
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
            # An error in one queue must not keep the others from running.
            logger.exception("turn failed task=%r", task)
        ended_seconds = perf_counter()
        self._watch.note(ended_seconds - began_seconds, task)
        return ended_seconds
