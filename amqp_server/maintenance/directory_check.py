"""A deep check of a data directory: every byte of every log, and the files' consistency.

It only reads. While a server runs, it checks only what is durable. It checks a problem twice,
because files change between two reads.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from amqp_server.recovery.consistency_check import check_consistency
from amqp_server.recovery.missing_parts import Part, missing_parts, refusal
from appendlog import FileSystem
from appendlog.checking.log_check import LogCheck, check_log
from appendlog.checking.problem import Level, Problem
from metadata.paths import document_path
from offsets import (
    GroupCheckpoint,
    QueueCheckpoint,
    decode_checkpoint,
    read_checkpoint,
    read_redo_journal,
)
from offsets.errors import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from amqp_server.maintenance.stored_queues import StoredQueue, StoredQueues

_MISSING: Final = {
    Part.LOGS: "missing-logs",
    Part.DEFINITIONS: "missing-definitions",
    Part.CHECKPOINTS: "missing-checkpoints",
}
_KEPT: Final = (
    "no definition names the queue of this log; it is kept, because a definition cannot be read"
)
_SET_ASIDE: Final = (
    "belongs to no queue or virtual host: the upgrade at the next start moves it to quarantine"
)
SECOND_LOOK_SECONDS: Final = 0.3
"""Seconds to wait before a problem in a running server's log is checked again."""


@dataclass(slots=True)
class QueueCheck:
    """Result of the check of one queue.

    Attributes:
        queue: The queue.
        log: Result of the check of its log.
        ack_floor: Ack floor in its checkpoint; None if it has no checkpoint.
        problems: Problems of the queue.
        left_out: Number of further problems.
    """

    queue: StoredQueue
    log: LogCheck
    ack_floor: int | None = None
    problems: list[Problem] = field(default_factory=list)
    left_out: int = 0


@dataclass(slots=True)
class DirectoryCheck:
    """Result of the check of a data directory.

    Attributes:
        is_live: Whether a server was running on it.
        queues: Results of all checked queues.
        problems: Problems that belong to no queue: definitions, checkpoints, journal, orphans.
        checkpoint_generation: Generation of the newest checkpoint.
        redo_transactions: Number of transactions in the redo journal.
        seconds: Duration of the check.
    """

    is_live: bool
    queues: list[QueueCheck] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    checkpoint_generation: int = 0
    redo_transactions: int = 0
    seconds: float = 0.0

    def all_problems(self) -> list[Problem]:
        """Return the problems of the directory and of all queues."""
        return self.problems + [each for check in self.queues for each in check.problems]

    @property
    def worst(self) -> Level | None:
        """Level of the worst problem; None if there is none."""
        return max((problem.level for problem in self.all_problems()), default=None)


class _Known(NamedTuple):
    """Content of a checkpoint for one queue and its groups."""

    queue: QueueCheckpoint | None
    groups: list[GroupCheckpoint]

    @property
    def known_end(self) -> int:
        """Offset below which the log was on the disk, exclusive."""
        ends = [group.known_end for group in self.groups]
        return max([self.queue.known_end if self.queue is not None else 0, *ends])


def check_directory(
    stored: StoredQueues,
    queues: Sequence[StoredQueue] | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> DirectoryCheck:
    """Check a data directory. A queue that cannot be read does not stop the check of the others.

    Args:
        stored: Its definitions.
        queues: Queues whose logs are checked; None for all queues and everything else.
        on_bytes: Called with the number of segment bytes read since the last call.
    """
    started = time.perf_counter()
    check = DirectoryCheck(stored.is_live)
    filesystem = FileSystem()
    if queues is None:
        _check_definitions(stored, check)
        _check_redo(stored, filesystem, check)
    # Read checkpoints before logs: what they refer to must then be in the logs.
    checkpoints = _read_checkpoints(stored, filesystem, check)
    if queues is None:
        _check_parts(stored, checkpoints, check)
    for queue in stored.queues if queues is None else queues:
        check.queues.append(
            _check_queue(stored, queue, (checkpoints or {}).get(queue.incarnation), on_bytes)
        )
    if queues is None and not stored.is_live:
        _check_consistency(stored, check)
    check.seconds = time.perf_counter() - started
    return check


def _check_definitions(stored: StoredQueues, check: DirectoryCheck) -> None:
    for unreadable in stored.report.unreadable:
        # What is missing may be known from elsewhere too.
        kind = "missing-definition" if unreadable.is_missing else "unreadable-definition"
        check.problems.append(Problem(Level.UNREADABLE, kind, unreadable.path, unreadable.reason))
    root = stored.storage_path / "metadata"
    for document, reason in stored.malformed:
        path = document_path(root, document.kind, document.vhost, document.name)
        text = f"{document.kind} {document.name!r} in {document.vhost!r} is invalid: {reason}"
        check.problems.append(Problem(Level.UNREADABLE, "unreadable-definition", path, text))


def _check_parts(
    stored: StoredQueues, known: Mapping[UUID, _Known] | None, check: DirectoryCheck
) -> None:
    """Record parts that are missing as a whole: a start is refused for each of them.

    Args:
        stored: The definitions.
        known: Content of the checkpoints; None if they cannot be read.
        check: Result to which problems are added.
    """
    ends = {incarnation: each.known_end for incarnation, each in (known or {}).items()}
    has_checkpoints = known is None or check.checkpoint_generation > 0
    for missing in missing_parts(
        stored.storage_path, stored.report, ends, has_checkpoints=has_checkpoints
    ):
        text = refusal(stored.storage_path, [missing])
        check.problems.append(Problem(Level.UNREADABLE, _MISSING[missing.part], missing.path, text))


def _check_redo(stored: StoredQueues, filesystem: FileSystem, check: DirectoryCheck) -> None:
    directory = stored.storage_path / "transactions"
    try:
        found = read_redo_journal(directory, filesystem)
        if found.damaged_files and stored.is_live:
            found = read_redo_journal(directory, filesystem)
    except OffsetsError as error:
        level = Level.HARMLESS if stored.is_live else Level.UNREADABLE
        check.problems.append(Problem(level, "unreadable-journal", directory, str(error)))
        return
    check.redo_transactions = len(found.transactions)
    for path in found.damaged_files:
        text = "a round that was on the disk cannot be read: a commit may be lost"
        check.problems.append(Problem(Level.DAMAGE, "damaged-journal", path, text))
    if found.torn_bytes and not stored.is_live:
        text = f"{found.torn_bytes} bytes of a round cut short"
        check.problems.append(Problem(Level.HARMLESS, "torn-journal", directory, text))


def _read_checkpoints(
    stored: StoredQueues, filesystem: FileSystem, check: DirectoryCheck
) -> dict[UUID, _Known] | None:
    """Return the checkpoint's content by queue; None if it cannot be read."""
    directory = stored.storage_path / "offsets"
    try:
        found = read_checkpoint(directory, filesystem)
        if found.damaged_files and stored.is_live:
            found = read_checkpoint(directory, filesystem)
    except OffsetsError as error:
        check.problems.append(
            Problem(Level.UNREADABLE, "unreadable-checkpoint", directory, str(error))
        )
        return None
    check.checkpoint_generation = found.generation
    for path in found.damaged_files:
        text = "a round that was on the disk cannot be read: settled messages may return"
        check.problems.append(Problem(Level.DAMAGE, "damaged-checkpoint", path, text))
    if found.torn_bytes and not stored.is_live:
        text = f"{found.torn_bytes} bytes of a round cut short"
        check.problems.append(Problem(Level.HARMLESS, "torn-checkpoint", directory, text))
    known = {UUID(bytes=key): _Known(decode_checkpoint(e), []) for key, e in found.entries.items()}
    for group in found.group_checkpoints().values():
        known.setdefault(group.incarnation, _Known(None, [])).groups.append(group)
    return known


def _check_queue(
    stored: StoredQueues,
    queue: StoredQueue,
    known: _Known | None,
    on_bytes: Callable[[int], None] | None,
) -> QueueCheck:
    found = _look(stored, queue, known, on_bytes)
    if stored.is_live and found.problems:
        time.sleep(SECOND_LOOK_SECONDS)
        again = _look(stored, queue, known, None)
        stays = {(each.kind, each.path, each.position) for each in found.problems}
        again.problems = [
            each for each in again.problems if (each.kind, each.path, each.position) in stays
        ]
        return again
    return found


def _look(
    stored: StoredQueues,
    queue: StoredQueue,
    known: _Known | None,
    on_bytes: Callable[[int], None] | None,
) -> QueueCheck:
    log = check_log(
        queue.directory,
        queue.identity,
        FileSystem(),
        is_live=stored.is_live,
        on_segment=on_bytes,
        settled_floor=known.queue.ack_floor if known is not None and known.queue else 0,
    )
    check = QueueCheck(queue, log, problems=list(log.problems.kept))
    check.left_out = log.problems.left_out
    if known is None:
        return check
    if known.queue is not None:
        check.ack_floor = known.queue.ack_floor
    if not any(each.level is Level.UNREADABLE for each in check.problems):
        check.problems += _leading(known, log, is_live=stored.is_live)
        check.problems += _missing_end(known, log, is_live=stored.is_live)
        if known.queue is not None:
            check.problems += _compare(known.queue, log, is_live=stored.is_live)
    return check


def _leading(known: _Known, log: LogCheck, *, is_live: bool) -> list[Problem]:
    """Return problems of offsets that are settled but not in the log (invariant I4)."""
    end = log.log_end_offset
    if log.durable_end is not None:
        end = max(end, log.durable_end.recovery_point)
    elif is_live:
        return []
    settled = [(f" of group '{group.name}'", group.settled_end) for group in known.groups]
    if (queue := known.queue) is not None:
        settled.append(("", max([queue.ack_floor, *(stop for _, stop in queue.acked_ranges)])))
    return [
        Problem(
            Level.DAMAGE,
            "checkpoint-leads",
            log.directory,
            f"the checkpoint says that{whose} offset {settled_end - 1} is settled, "
            f"the log ends at {end}",
        )
        for whose, settled_end in settled
        if settled_end > end
    ]


def _missing_end(known: _Known, log: LogCheck, *, is_live: bool) -> list[Problem]:
    """Return problems of unsettled offsets that were durable but are not in the log.

    If `end` refers to them as well, the log's own check reports that (`log-too-short`).
    """
    durable = log.durable_end
    if durable is None and is_live:
        return []
    end = max(log.log_end_offset, durable.recovery_point if durable is not None else 0)
    floor = known.queue.ack_floor if known.queue is not None else 0
    lost = (max(end, floor), known.known_end)
    if lost[0] >= lost[1]:
        return []
    text = (
        f"the checkpoint says that the log was on the disk up to offset {lost[1]}, it ends at {end}"
    )
    return [Problem(Level.DAMAGE, "end-missing", log.directory, text, offsets=lost)]


def _compare(checkpoint: QueueCheckpoint, log: LogCheck, *, is_live: bool) -> list[Problem]:
    """Return problems of unsettled offsets below the start of the log (invariant I1)."""
    problems: list[Problem] = []
    if checkpoint.ack_floor < log.log_start_offset and not is_live:
        offsets = (checkpoint.ack_floor, log.log_start_offset)
        text = (
            f"the log begins at offset {log.log_start_offset}, "
            f"only what is below {checkpoint.ack_floor} is known to be settled"
        )
        problems.append(
            Problem(Level.DAMAGE, "segments-missing", log.directory, text, offsets=offsets)
        )
    return problems


def _check_consistency(stored: StoredQueues, check: DirectoryCheck) -> None:
    """Compare documents and logs, as a start does."""
    if any(problem.kind == _MISSING[Part.DEFINITIONS] for problem in check.problems):
        return
    found = check_consistency(
        stored.storage_path,
        stored.report,
        FileSystem(),
        is_earlier_format=stored.is_earlier_format,
    )
    named = {each.path for each in found.missing}
    check.problems = [each for each in check.problems if each.path not in named]
    for each in found.missing:
        check.problems.append(
            Problem(Level.UNREADABLE, "missing-definition", each.path, each.reason)
        )
    harmless = [
        *(("deleted-log", log.path, "deleted: a start removes it") for log in found.deleted_logs),
        *(("orphaned-log", log.path, _KEPT) for log in found.kept_logs),
        *(("orphaned-log", path, _SET_ASIDE) for path in found.orphans),
        *(
            ("not-a-log", path, "not a log of this server: it is left unchanged")
            for path in found.foreign_paths
        ),
    ]
    for kind, path, text in harmless:
        check.problems.append(Problem(Level.HARMLESS, kind, path, text))
