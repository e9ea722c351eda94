"""Carries out commits one at a time, each in slices, so that no client sees a part of one.

A commit *isolates* the queues that it publishes or requeues to, from its first step to its last:
nothing else delivers, expires, counts, purges or deletes there, and no other client publishes to
them. It isolates and releases all of them at the same moment. As commits run one at a time, none
waits for a queue that another one isolates.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from amqp_server.base.time_slice import TimeSlice
    from amqp_server.broker.client import Client
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.turn import Turn

STEP_QUEUES = 256
"""Queues that go on in one step."""


class _Waiting(NamedTuple):
    client: Client
    steps: Iterator[None]
    done: asyncio.Future[None]


class PendingCommits:
    """The commits that are ready to be carried out, first in, first out. The event loop owns it.

    Args:
        turn: Turn that runs them.
        storage: What all queues share; knows which of them are in a commit.
    """

    def __init__(self, turn: Turn, storage: QueueStorage) -> None:
        self._turn = turn
        self._storage = storage
        self._waiting: deque[_Waiting] = deque()
        self._isolated: Collection[Queue] = ()
        self._blocked: dict[Client, None] = {}

    def add(self, client: Client, steps: Iterator[None]) -> asyncio.Future[None]:
        """Carry out a commit after those that came before; begin at once if there is none.

        Args:
            client: Client that is charged for it.
            steps: The commit; each step does a part.

        Returns:
            What is done after the last step; a short commit is done when this returns.
        """
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(client, self._whole(steps), done))
        if len(self._waiting) == 1:
            self._turn.jobs.add(self)
            self._run(self._turn.new_slice() if self._turn.cuts_jobs else None)
        return done

    def isolate(self, queues: Collection[Queue]) -> None:
        """Let nothing but the commit that is under way change what clients see of some queues.

        Args:
            queues: Queues, which no longer change.
        """
        self._storage.queues_in_commit = self._isolated = queues

    def _whole(self, steps: Iterator[None]) -> Iterator[None]:
        """Take the steps of a commit; then release its queues, and let them go on."""
        error: Exception | None = None
        try:
            yield from steps
        except Exception as raised:  # noqa: BLE001 - raised again when no queue is isolated
            error = raised
        isolated, self._isolated, self._storage.queues_in_commit = self._isolated, (), ()
        for at, queue in enumerate(isolated, 1):
            queue.on_commit_ended()
            if at % STEP_QUEUES == 0:
                yield
        if error is not None:
            raise error

    # For the others

    def until_released(self, client: Client, queues: Iterable[Queue]) -> Iterator[None]:
        """Take steps until none of the queues is in a commit; the client handles nothing else.

        Args:
            client: Client that is about to change the queues, or to count in them.
            queues: Queues; the caller looks again which of them are still there.
        """
        while any(queue.is_in_commit for queue in queues):
            if client.wait_for_commit():
                self._blocked[client] = None
                yield
            else:
                # The server stops, or closes the connection: nothing can be handled later.
                self.finish()

    # For the turn

    @property
    def work(self) -> str:
        """What is carried out, as the log of stalls names it."""
        return f"commit of client {self._waiting[0].client.name!r}" if self._waiting else "commits"

    def run_turn(self) -> None:
        """Do a slice."""
        if self._waiting:
            self._run(self._turn.time_slice)

    def finish(self) -> None:
        """Do all that is left at once."""
        self._run(None)

    def _run(self, time_slice: TimeSlice | None) -> None:
        while self._waiting:
            commit = self._waiting[0]
            error: Exception | None = None
            try:
                for _ in commit.steps:
                    if time_slice is not None and time_slice.is_over:
                        self._turn.mark(self, commit.client.task_queue)
                        return
            except Exception as raised:  # noqa: BLE001 - who waits for the commit gets it
                error = raised
            self._waiting.popleft()
            self._end(commit, error)
            if time_slice is not None and self._waiting and time_slice.is_over:
                self._turn.mark(self, self._waiting[0].client.task_queue)
                return
        self._turn.jobs.discard(self)

    def _end(self, commit: _Waiting, error: Exception | None) -> None:
        """Let the others go on, and report the result."""
        # They are marked before the next commit is: who has waited for this one goes first.
        blocked, self._blocked = self._blocked, {}
        for client in blocked:
            client.on_wait_ended()
        if commit.done.done():
            return
        if error is None:
            commit.done.set_result(None)
        else:
            commit.done.set_exception(error)
