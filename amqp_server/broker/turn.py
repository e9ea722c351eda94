"""The turn: divides the time of the event loop between clients.

Input only *marks* the tasks that it makes work for: queues, channels, connections with events that
wait. Each turn runs a marked task once, after the event loop has read what there was. So batches
form without a timer: the turn of a lone publisher ends as soon as its input is read.

Each connection has a *task queue*. A task waits in the task queue of the client that made the work,
so a publish to 10,000 queues is one client's work. Each task queue has a clock: the time that it
has used. Time in which the operating system ran other programs does not count, as far as it can be
seen. The task queue with the lowest clock runs next, so a client that uses little goes before all
that use more, and n task queues that wait get one n-th of the time each. A turn ends after
`TURN_SECONDS`; what is left is done in the next turn, after the loop has read again.

Source: start-time fair queueing (Goyal, Vin, Cheng, 1996), without weights.
"""

from __future__ import annotations

import logging
from functools import partial
from heapq import heappop, heappush
from itertools import count
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.base.clock import SystemClock
from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.turn_watch import BOUNDS_SECONDS, TurnWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.clock import Clock, Timer
    from amqp_server.base.time_slice import Stopwatch

logger = logging.getLogger("amqp_server.broker.turn")

SHORT_SECONDS: Final = BOUNDS_SECONDS[0]
"""Seconds of a task that the watch counts in its first bucket."""
TURN_SECONDS: Final = 0.002
"""Seconds of a turn. Input that arrives during it waits that long, and for one task, at most."""


LEAD_SECONDS: Final = 0.002
"""By how much a task queue may be ahead of one that waits and still handle its input at once; a new
task queue enters by as much behind the others. It is as long as a turn."""
MEASURED_SECONDS: Final = 2 * LEAD_SECONDS
"""Seconds of one task behind which its client is charged for processor time only, but not for less.

Other programs may have had the processor. A client whose input the loop had just begun to handle
would be charged for them, and wait until every other client has used as much.
"""
PROCESSOR_SECONDS: Final = 0.002
"""Seconds for which the reading of the processor time is good enough: it is a system call."""


class TurnTask(Protocol):
    """Something that has work to do once in a turn."""

    def run_turn(self) -> None:
        """Do the work, or as much as the turn's `time_slice` allows, and mark itself for the rest.

        Tasks that it marks run in the next turn.
        """


class Holder(Protocol):
    """Something that holds back what it could do at once, to do it once for all of a turn."""

    def let_go(self) -> None:
        """Do what was held back: the work that is under way ends."""


class LongTask(TurnTask, Protocol):
    """A task that takes many turns."""

    def finish(self) -> None:
        """Do all that is left at once."""


class TaskQueue:
    """The tasks that wait for one client, or for one purpose of the server, first in, first out.

    Args:
        clock_seconds: Where its clock starts.

    Attributes:
        clock_seconds: Seconds of the loop that the task queue has used. When it was empty they are
            raised to those of the task queue that ran last: waiting for nothing saves up no time.
        is_waiting: Whether it takes part in the turns, because a task waits in it.
        number: Number of the last turn that `begin` was called for.
        due: Tasks that wait for this turn.
        marked: Tasks that wait for the turn after `number`.
    """

    __slots__ = ("clock_seconds", "due", "is_waiting", "marked", "number")

    def __init__(self, clock_seconds: float = 0.0) -> None:
        self.clock_seconds = clock_seconds
        self.is_waiting = False
        # Dicts keep the order: the task that was marked first runs first.
        self.due: dict[TurnTask, None] = {}
        self.marked: dict[TurnTask, None] = {}
        self.number = 0

    def begin(self, number: int) -> None:
        """Make what was marked before turn `number` due in it."""
        self.number = number
        if not self.due:
            self.due, self.marked = self.marked, self.due
        elif self.marked:
            self.due.update(self.marked)
            self.marked.clear()


class Turn:
    """Collects tasks in task queues, and runs each once, after the event loop has read all input.

    Args:
        call_soon: Method of the event loop, passed in so that the broker needs no asyncio.
        call_later: Method of the event loop; takes the delay in seconds first.
        watch: Learns how long each task takes; None: a watch that nothing reads.
        record_work: Called after each turn with the seconds of work since the last call, which
            include those of `run_now`; None: not called.
        clock: Time that the broker goes by; None: that of the machine.
        stopwatch: Measures how long tasks take, and when slices and turns are over.
        processor_time: Stopwatch that stands while other programs have the processor.

    Attributes:
        clock: Time that the broker goes by.
        stopwatch: Measures slices and turns.
        number: Grows with each turn. While it stays the same, every task that was marked is still
            marked, so marking it again changes nothing.
        time_slice: Time of the task that runs now.
        jobs: Long operations that are not done yet.
        cuts_jobs: Whether a new one is cut into slices.
        upkeep: Task queue of timers and of results of the disk.
        endings: Task queue of what connections leave behind when they end.
        transfers: Task queue of messages that the broker forwards from queue to queue.
        current_task_queue: Task queue of the task that runs now; `upkeep` when none runs.
        work: Number of the turn, or of the call of `run_now`, that is under way; 0: none is.
        holders: Called at its end, once each; empty while none is under way.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], Timer],
        watch: TurnWatch | None = None,
        record_work: Callable[[float], None] | None = None,
        clock: Clock | None = None,
        stopwatch: Stopwatch = perf_counter,
        processor_time: Stopwatch = thread_time,
    ) -> None:
        self.clock: Clock = SystemClock(call_later) if clock is None else clock
        self.stopwatch = stopwatch
        self._processor_time = processor_time
        self._watch = TurnWatch() if watch is None else watch
        self._record_work = record_work
        self._call_soon = call_soon
        self._call_later = call_later
        self.number = 0
        self.time_slice = self.new_slice()
        self.jobs: set[LongTask] = set()
        self.cuts_jobs = True
        self.upkeep = TaskQueue()
        self.endings = TaskQueue()
        self.transfers = TaskQueue()
        self.current_task_queue = self.upkeep
        self.work = 0
        self.holders: list[Holder] = []
        self._works = count(1)
        # (clock, order of entry, task queue): the order decides between equal clocks.
        self._waiting: list[tuple[float, int, TaskQueue]] = []
        self._entries = count()
        self._clock_seconds = 0.0
        self._reading_seconds = 0.0
        # Processor time of the loop when a turn began, or when a long task ended; and when that was
        # read, by the stopwatch.
        self._processor_seconds = 0.0
        self._processor_read_seconds = -PROCESSOR_SECONDS
        self._is_scheduled = False
        # Tasks that ran in this turn.
        self._ran: set[TurnTask] = set()

    def new_slice(self, seconds: float | None = None) -> TimeSlice:
        """Return a slice that begins now, for work that is not a task's; None: `SLICE_SECONDS`."""
        return TimeSlice(seconds, self.stopwatch)

    def new_task_queue(self) -> TaskQueue:
        """Return a task queue for a new connection; it enters `LEAD_SECONDS` after the others.

        So a client gains nothing by leaving and coming back.
        """
        return TaskQueue(self._clock_seconds + LEAD_SECONDS)

    def mark(self, task: TurnTask, task_queue: TaskQueue | None = None) -> None:
        """Run `task` in the next turn; marking it twice in one line runs it once.

        Args:
            task: Task that has work to do.
            task_queue: Task queue that it waits in; None: the task queue of the task that runs now.
        """
        if task_queue is None:
            task_queue = self.current_task_queue
        if task_queue.number != self.number:
            task_queue.begin(self.number)
        task_queue.marked[task] = None
        if not (task_queue.is_waiting and self._is_scheduled):
            self._schedule(task_queue)

    def mark_now(self, task: TurnTask, task_queue: TaskQueue) -> None:
        """Run `task` in this turn if there is time left and it has not run, or in the next.

        Args:
            task: Task that goes on with the work of the task that runs now.
            task_queue: Task queue that it waits in.
        """
        if task in self._ran:
            self.mark(task, task_queue)
            return
        task_queue.due[task] = None
        self._schedule(task_queue)

    def mark_after(self, seconds: float, task: TurnTask) -> Timer:
        """Mark `task` after `seconds` of the clock: never earlier, perhaps a little later.

        The caller owns the timer and cancels it when it no longer wants the task.
        """
        return self.clock.call_later(seconds, partial(self.mark, task))

    def mark_after_real(self, seconds: float, task: TurnTask) -> Timer:
        """Mark `task` as `mark_after` does, after real seconds, whatever clock the broker goes by.

        For what waits for the disk or saves memory.
        """
        return self._call_later(seconds, partial(self.mark, task))

    @property
    def is_idle(self) -> bool:
        """Whether no task waits for a turn, and no long operation is under way."""
        return not (self._waiting or self._is_scheduled or self.jobs)

    def finish_jobs(self) -> None:
        """Do the rest of all long operations, because the server stops; later ones at once."""
        self.cuts_jobs = False
        while self.jobs:
            for job in tuple(self.jobs):
                try:
                    job.finish()
                except Exception:
                    # The others must end all the same: the last checkpoint follows.
                    self.jobs.discard(job)
                    logger.exception("job failed job=%r", job)

    def run_now(self, task: TurnTask, task_queue: TaskQueue) -> bool:
        """Run a task whose input was just read, before this turn, if its client has time left.

        It has none if the reads before this turn have used up a turn, or if another task queue
        waits whose clock is more than `LEAD_SECONDS` behind. Then it is marked.

        Returns:
            Whether the task ran.
        """
        if self._reading_seconds >= TURN_SECONDS or (
            self._waiting and task_queue.clock_seconds > self._waiting[0][0] + LEAD_SECONDS
        ):
            self.mark(task, task_queue)
            return False
        if not task_queue.is_waiting:
            task_queue.clock_seconds = max(task_queue.clock_seconds, self._clock_seconds)
        began_seconds = self.stopwatch()
        self.work = next(self._works)
        try:
            self._reading_seconds += self._run_one(task, task_queue, began_seconds) - began_seconds
        finally:
            self.current_task_queue = self.upkeep
            self.work = 0
            if self.holders:
                self._let_go()
        return True

    def _schedule(self, task_queue: TaskQueue) -> None:
        """Let a task queue take part in the turns, because a task waits in it."""
        if not task_queue.is_waiting:
            task_queue.is_waiting = True
            task_queue.clock_seconds = max(task_queue.clock_seconds, self._clock_seconds)
            heappush(self._waiting, (task_queue.clock_seconds, next(self._entries), task_queue))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _push(self, task_queue: TaskQueue) -> None:
        heappush(self._waiting, (task_queue.clock_seconds, next(self._entries), task_queue))

    def _run(self) -> None:
        self.number += 1
        self.work = next(self._works)
        self._is_scheduled = False
        self._ran.clear()
        done: list[TaskQueue] = []
        now_seconds = self.stopwatch()
        if now_seconds - self._processor_read_seconds >= PROCESSOR_SECONDS:
            self._processor_read_seconds = now_seconds
            self._processor_seconds = self._processor_time()
        end_seconds = now_seconds + TURN_SECONDS
        worked_before_seconds = now_seconds - self._reading_seconds
        self._reading_seconds = 0.0
        try:
            while self._waiting and now_seconds < end_seconds:
                clock_seconds, _, task_queue = heappop(self._waiting)
                if clock_seconds < task_queue.clock_seconds and self._waiting:
                    # It has used time since it entered, for input that was just read.
                    self._push(task_queue)
                    continue
                if task_queue.number != self.number:
                    task_queue.begin(self.number)
                task = next(iter(task_queue.due), None)
                if task is not None:
                    del task_queue.due[task]
                    # A queue may wait in the task queues of several clients; the first to come
                    # runs it.
                    if task not in self._ran:
                        self._ran.add(task)
                        self._clock_seconds = task_queue.clock_seconds
                        now_seconds = self._run_one(task, task_queue, now_seconds)
                if not task_queue.due:
                    done.append(task_queue)
                else:
                    self._push(task_queue)
        finally:
            self._end_turn(done)
        worked_seconds = now_seconds - worked_before_seconds
        self._watch.busy_seconds += worked_seconds
        if self._record_work is not None:
            self._record_work(worked_seconds)

    def _end_turn(self, done: list[TaskQueue]) -> None:
        """Let go what was held back, and plan the next turn.

        Args:
            done: Task queues in which nothing was due any more.
        """
        self.current_task_queue = self.upkeep
        self.work = 0
        if self.holders:
            self._let_go()
        self._ran.clear()
        for task_queue in done:
            if not task_queue.due and not task_queue.marked:
                task_queue.is_waiting = False
            else:
                self._push(task_queue)
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _let_go(self) -> None:
        began_seconds = self.stopwatch()
        holders, self.holders = self.holders, []
        for holder in holders:
            try:
                holder.let_go()
            except Exception:
                logger.exception("turn failed holder=%r", holder)
        self._watch.busy_seconds += self.stopwatch() - began_seconds

    def _run_one(self, task: TurnTask, task_queue: TaskQueue, began_seconds: float) -> float:
        """Run a task that begins now, in its task queue; return when it ended, by the stopwatch."""
        self.current_task_queue = task_queue
        self.time_slice.began_seconds = began_seconds
        try:
            task.run_turn()
        except Exception:
            # An error in one queue must not keep the others from running.
            logger.exception("turn failed task=%r", task)
        ended_seconds = self.stopwatch()
        seconds = ended_seconds - began_seconds
        if seconds <= SHORT_SECONDS:
            # Most tasks: without the call of `record`.
            self._watch.buckets[0] += 1
        else:
            self._watch.record(seconds, task)
        if seconds > MEASURED_SECONDS:
            # That of the tasks before it in this turn, and in turns just before, is among it: four
            # milliseconds at most.
            before_seconds, self._processor_seconds = (
                self._processor_seconds,
                self._processor_time(),
            )
            used_seconds = self._processor_seconds - before_seconds
            seconds = min(seconds, max(used_seconds, MEASURED_SECONDS))
        task_queue.clock_seconds += seconds
        return ended_seconds
