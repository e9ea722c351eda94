"""The rest of a long operation, done a slice at a time while other clients are served."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.base.time_slice import TimeSlice
    from amqp_server.broker.turn import TaskQueue, Turn


class Job:
    """An operation that is done in steps, in the turns of a task queue.

    Args:
        turn: Turn that runs it.
        task_queue: Task queue of the client that is charged for it.
        steps: The operation; each step does a part of it.
        name: What it does, for the log of stalls.
        slice_seconds: Longest slice; None: as long as all others.
    """

    def __init__(
        self,
        turn: Turn,
        task_queue: TaskQueue,
        steps: Iterator[None],
        name: str,
        slice_seconds: float | None = None,
    ) -> None:
        self.name = name
        self._slice_seconds = slice_seconds
        self._turn = turn
        self._task_queue = task_queue
        self._steps = steps

    def start(self, time_slice: TimeSlice | None = None) -> None:
        """Do a slice at once. A short operation is done when this returns.

        Args:
            time_slice: Time of the task that starts it and goes on afterwards; None: a slice more.
        """
        self._turn.jobs.add(self)
        self._run((time_slice or self._new_slice()) if self._turn.cuts_jobs else None)

    def run_turn(self) -> None:
        """Do a slice."""
        if self in self._turn.jobs:
            self._run(self._new_slice())

    def finish(self) -> None:
        """Do all that is left, because the server stops."""
        self._run(None)

    def _new_slice(self) -> TimeSlice:
        return self._turn.new_slice(self._slice_seconds)

    def _run(self, time_slice: TimeSlice | None) -> None:
        try:
            for _ in self._steps:
                if time_slice is not None and time_slice.is_over:
                    self._turn.mark(self, self._task_queue)
                    return
        except BaseException:
            self._turn.jobs.discard(self)
            raise
        self._turn.jobs.discard(self)


async def done_in_turns(
    turn: Turn,
    task_queue: TaskQueue,
    steps: Iterator[None],
    name: str,
    slice_seconds: float | None = None,
) -> None:
    """Take all steps in the turns of a task queue; return when they are done.

    A caller that is cancelled does not wait; the steps are taken all the same.

    Args:
        turn: Turn that runs them.
        task_queue: Task queue of the client that is charged for them.
        steps: An operation; each step does a part of it.
        name: What it does, for the log of stalls.
        slice_seconds: Longest slice; None: as long as all others.
    """
    done = asyncio.get_running_loop().create_future()

    def and_report() -> Iterator[None]:
        try:
            yield from steps
        except Exception as error:
            if done.done():
                raise
            done.set_exception(error)
        else:
            if not done.done():
                done.set_result(None)

    Job(turn, task_queue, and_report(), name, slice_seconds).start()
    await done
