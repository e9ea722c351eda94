"""What can be done about the problems that a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from amqp_server.broker.definitions import VHOSTS
from appendlog.checking.problem import Problem

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.maintenance.directory_check import DirectoryCheck, QueueCheck
    from amqp_server.maintenance.stored_queues import StoredQueue


class Remedy(StrEnum):
    """How a problem is mended."""

    REWRITE = "rewrite"
    """The segment is written anew without what is damaged; the old file goes to quarantine."""
    RENAME = "rename"
    """The segment gets the name that its header says; nothing else is done before."""
    REBUILD_INDEX = "rebuild index"
    SET_ASIDE = "set aside"
    """The file or directory goes to quarantine."""
    RECOVER = "recover"
    """A start of the server mends it; the repair ends with the same recovery."""
    NONE = "cannot be mended"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do.

    Attributes:
        remedy: What.
        path: To which file or directory.
        reason: Why.
        queue: Whose it is, if it is a queue's.
    """

    remedy: Remedy
    path: Path
    reason: str
    queue: StoredQueue | None = None


_OF_QUEUES: Final = {
    "damaged-chunk": Remedy.REWRITE,
    "damaged-header": Remedy.REWRITE,
    "wrong-chunk": Remedy.REWRITE,
    "footer-missing": Remedy.REWRITE,
    "footer-wrong": Remedy.REWRITE,
    "chunk-behind-footer": Remedy.REWRITE,
    "offsets-missing": Remedy.REWRITE,
    "segment-gap": Remedy.REWRITE,
    "foreign-segment": Remedy.SET_ASIDE,
    "misplaced-segment": Remedy.RENAME,
    "end-unreadable": Remedy.SET_ASIDE,
    "index-missing": Remedy.REBUILD_INDEX,
    "index-wrong": Remedy.REBUILD_INDEX,
    "torn-tail": Remedy.RECOVER,
    "log-too-short": Remedy.RECOVER,
    "end-missing": Remedy.RECOVER,
    "checkpoint-leads": Remedy.RECOVER,
    "segments-missing": Remedy.RECOVER,
    "old-generation": Remedy.SET_ASIDE,
}
_OF_THE_DIRECTORY: Final = {
    "torn-checkpoint": Remedy.RECOVER,
    "damaged-checkpoint": Remedy.RECOVER,
    "torn-journal": Remedy.RECOVER,
    "damaged-journal": Remedy.RECOVER,
    "orphaned-log": Remedy.SET_ASIDE,
    "deleted-log": Remedy.RECOVER,
}


def plan_repair(
    check: DirectoryCheck, *, drop_definitions: bool, drop_checkpoints: bool
) -> list[Step]:
    """Return what to do, each thing once, what cannot be mended last.

    Args:
        check: What was found.
        drop_definitions: Unreadable definitions go to quarantine, with the logs of their queues;
            so does what speaks of queues and exchanges whose definitions are missing.
        drop_checkpoints: An unreadable checkpoint goes to quarantine: all that is in the logs
            comes again.
    """
    steps: dict[tuple[Remedy, Path], Step] = {}
    for each in check.queues:
        for problem in each.problems:
            step = _step_for(each, problem)
            steps.setdefault((step.remedy, step.path), step)
    is_unknown = any(problem.kind == "unreadable-definition" for problem in check.problems)
    for problem in check.problems:
        if problem.kind == "orphaned-log" and is_unknown:
            # It may be the log of a definition that cannot be read: a start keeps it too.
            continue
        if problem.kind == "not-a-log":
            # Somebody put it there, and nothing is wrong with it.
            continue
        remedy, text = _OF_THE_DIRECTORY.get(problem.kind, Remedy.NONE), problem.text
        if problem.kind == "unreadable-definition" and problem.path.suffix == ".json":
            remedy, text = _dropped(text, "--drop-definitions", is_asked=drop_definitions)
        elif problem.kind == "missing-definition" and problem.path.parent.parent.name == VHOSTS:
            remedy = Remedy.RECOVER
        elif problem.kind == "missing-definition":
            remedy, text = _dropped(text, "--drop-definitions", is_asked=drop_definitions)
        elif problem.kind == "unreadable-checkpoint":
            remedy, text = _dropped(text, "--drop-checkpoints", is_asked=drop_checkpoints)
        steps.setdefault((remedy, problem.path), Step(remedy, problem.path, text))
    return sorted(steps.values(), key=lambda step: step.remedy is Remedy.NONE)


def _dropped(text: str, option: str, *, is_asked: bool) -> tuple[Remedy, str]:
    return (
        (Remedy.SET_ASIDE, text) if is_asked else (Remedy.NONE, f"{text}; {option} sets it aside")
    )


def _step_for(check: QueueCheck, problem: Problem) -> Step:
    remedy = _OF_QUEUES.get(problem.kind, Remedy.NONE)
    path = problem.path
    if problem.kind == "segment-gap":
        # The segment before the gap gets a note of it.
        paths = [facts.segment.path for facts in check.log.segments]
        path = paths[paths.index(path) - 1]
    return Step(remedy, path, problem.text, check.queue)
