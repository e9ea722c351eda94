"""The command `management.changes`: what has changed in the broker since it was last asked."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.change_feed.changed_objects import KINDS, ChangedObjects
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.turn import TaskQueue
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.admin.change_feed.row import Report
    from amqp_server.broker.turn import Turn
    from amqp_server.control.node_state import NodeState
    from amqp_server.control.registry import ReportProgress


SLICE_SECONDS: Final = 0.0005
"""Longest piece of a poll: a quarter of what others get, because no client of AMQP waits for it."""


class _Reader:
    """One request: takes the steps of its poll in the turns of a task queue, report by report.

    Args:
        turn: Turn that runs the steps.
        task_queue: Task queue in which they run; all requests share it.
        steps: The poll; some steps return a report.
    """

    def __init__(self, turn: Turn, task_queue: TaskQueue, steps: Iterator[Report | None]) -> None:
        self.work_seconds = 0.0
        self._turn = turn
        self._task_queue = task_queue
        self._steps = steps
        self._report: Report | None = None

    async def next_report(self) -> Report | None:
        """Return the next report; None when all have been returned."""
        self._report = None
        name = "management.changes"
        await done_in_turns(self._turn, self._task_queue, self._until_report(), name, SLICE_SECONDS)
        return self._report

    def _until_report(self) -> Iterator[None]:
        began_seconds = time.thread_time()
        for report in self._steps:
            if report is not None:
                self._report = report
                break
            self.work_seconds += time.thread_time() - began_seconds
            yield
            began_seconds = time.thread_time()
        self.work_seconds += time.thread_time() - began_seconds


async def changes(
    feed: ChangedObjects,
    turn: Turn,
    task_queue: TaskQueue,
    node: NodeState,
    report: ReportProgress,
    since: int,
    kinds: list[Any],
) -> dict[str, Any]:
    """Report what has changed since a poll, and return the state of the whole server.

    Args:
        feed: The feed of changed objects.
        turn: Turn that runs the poll.
        task_queue: Task queue in which it runs.
        node: The state of the whole server.
        report: Sends a report.
        since: Generation of the last poll; 0 for everything.
        kinds: Kinds of objects to look at.

    Raises:
        ControlError: A kind is unknown.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        reason = f"management.changes: unknown kind {unknown[0]!r:.50}, expected {', '.join(KINDS)}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    poll = feed.begin(since)
    await report({"run": feed.run, "is_whole": poll.since == 0})
    reader = _Reader(turn, task_queue, feed.reports(poll, kinds))
    while (found := await reader.next_report()) is not None:
        await report(found.as_json())
    state = await node.as_json()
    return {
        "generation": poll.generation,
        "work_seconds": round(reader.work_seconds, 6),
        "totals": node.totals(),
        "node": state,
    }


def changes_commands(feed: ChangedObjects, turn: Turn, node: NodeState) -> tuple[Command, ...]:
    """Return the command `management.changes` of a server with these parts."""
    run = partial(changes, feed, turn, TaskQueue(), node)
    return (Command("management.changes", run, {"since": int, "kinds": list}, reports=True),)
