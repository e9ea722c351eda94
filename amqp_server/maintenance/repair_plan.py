"""Plans the steps that repair the problems of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from amqp_server.broker.definitions import VHOSTS
from appendlog.checking.problem import Problem
from metadata.name_list import NAMES_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.maintenance.directory_check import DirectoryCheck, QueueCheck
    from amqp_server.maintenance.stored_queues import StoredQueue


class Remedy(StrEnum):
    """Way to repair a problem."""

    REWRITE = "rewrite"
    """The segment is rewritten without its damaged parts; the old file goes to quarantine."""
    RENAME = "rename"
    """The segment gets the name that its header says, before any other step."""
    REBUILD_INDEX = "rebuild index"
    SET_ASIDE = "set aside"
    """The file or directory goes to quarantine."""
    RECOVER = "recover"
    """A start of the server repairs it; the repair ends with the same recovery."""
    NONE = "cannot be mended"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a repair.

    Attributes:
        remedy: Way to repair.
        path: File or directory.
        reason: The problem, and why this remedy.
        queue: Queue to which the path belongs; None if it belongs to none.
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
    """Return the steps, each once; problems that cannot be repaired come last.

    Args:
        check: Result of the check.
        drop_definitions: Whether unreadable definitions go to quarantine, with the logs of their
            queues, and whatever refers to queues and exchanges without definitions.
        drop_checkpoints: Whether an unreadable checkpoint goes to quarantine: all messages in the
            logs then return.
    """
    steps: dict[tuple[Remedy, Path], Step] = {}
    for each in check.queues:
        for problem in each.problems:
            step = _step_for(each, problem)
            steps.setdefault((step.remedy, step.path), step)
    is_unknown = any(problem.kind == "unreadable-definition" for problem in check.problems)
    for problem in check.problems:
        if problem.kind == "orphaned-log" and is_unknown:
            # The log may belong to an unreadable definition: a start keeps it as well.
            continue
        if problem.kind == "not-a-log":
            # It is a foreign file, and nothing is wrong with it.
            continue
        remedy = _OF_THE_DIRECTORY.get(problem.kind, Remedy.NONE)
        text = problem.text
        if _is_written_anew(problem):
            remedy = Remedy.RECOVER
        elif (
            problem.kind == "unreadable-definition" and problem.path.suffix == ".json"
        ) or problem.kind == "missing-definition":
            remedy, text = _dropped(text, "--drop-definitions", is_asked=drop_definitions)
        elif problem.kind == "unreadable-checkpoint":
            remedy, text = _dropped(text, "--drop-checkpoints", is_asked=drop_checkpoints)
        steps.setdefault((remedy, problem.path), Step(remedy, problem.path, text))
    return sorted(steps.values(), key=lambda step: step.remedy is Remedy.NONE)


def _is_written_anew(problem: Problem) -> bool:
    """Return whether a start writes what is damaged from what it finds elsewhere."""
    is_vhost = problem.path.parent.parent.name == VHOSTS
    return problem.path.name == NAMES_NAME or (problem.kind == "missing-definition" and is_vhost)


def _dropped(text: str, option: str, *, is_asked: bool) -> tuple[Remedy, str]:
    return (
        (Remedy.SET_ASIDE, text)
        if is_asked
        else (Remedy.NONE, f"{text}; {option} moves it to quarantine")
    )


def _step_for(check: QueueCheck, problem: Problem) -> Step:
    remedy = _OF_QUEUES.get(problem.kind, Remedy.NONE)
    path = problem.path
    if problem.kind == "segment-gap":
        # The segment before the gap records the loss.
        paths = [found.segment.path for found in check.log.segments]
        path = paths[paths.index(path) - 1]
    return Step(remedy, path, problem.text, check.queue)
