"""Mending a data directory on which no server runs. Nothing is removed without a copy.

The check tells what is wrong, each pass mends what it can, and the next check may find what was
hidden before. At the end stands the recovery that a start of the server does.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqp_server.broker.definitions import BINDINGS, QUEUES, binding_ends
from amqp_server.errors import StartupError
from amqp_server.maintenance.directory_check import DirectoryCheck, check_directory
from amqp_server.maintenance.quarantine import Quarantine
from amqp_server.maintenance.repair_plan import Remedy, Step, plan_repair
from amqp_server.maintenance.settling import settle_in_checkpoint
from amqp_server.maintenance.stored_queues import StoredQueue, load_stored_queues
from amqp_server.missing_parts import Part
from amqp_server.offline_recovery import recover_directory
from amqp_server.storage_lock import lock_storage
from appendlog import FileSystem
from appendlog.recovery.own_segments import own_segments
from appendlog.repairing.index_rebuild import rebuild_index
from appendlog.repairing.segment_rewrite import RewrittenSegment, rewrite_segment, swap_in
from appendlog.segments.durable_end import END_FILE_NAME, read_durable_end
from appendlog.segments.segment import SegmentName
from metadata.names import LOGS_NAME, encode_name
from metadata.paths import document_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from amqp_server.maintenance.directory_check import QueueCheck
    from amqp_server.start_report import StartReport

ROUNDS_MAX: Final = 3
"""How often all of it is done: a recovery may bring to light what was hidden before."""
PASSES_MAX: Final = 4
"""How often what was found is mended; a pass that changes nothing is the last."""


@dataclass(slots=True)
class Repair:
    """What was done.

    Attributes:
        done: Steps, in order.
        left: What could not be mended.
        lost: Offsets `[start, end)` that were given up, by queue: with what was taken out, or
            because the recovery at the end missed them.
        dropped: Parts of which something was set aside: where that leaves nothing of one, it is
            given up.
        quarantine: Where the copies are, one directory for each round; empty when nothing was
            taken out.
        check: What the directory is like now.
    """

    done: list[Step] = field(default_factory=list)
    left: list[Step] = field(default_factory=list)
    lost: list[tuple[StoredQueue, int, int]] = field(default_factory=list)
    dropped: set[Part] = field(default_factory=set)
    quarantine: list[Path] = field(default_factory=list)
    check: DirectoryCheck | None = None


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What the operator asks for; see `plan_repair`."""

    drop_definitions: bool = False
    drop_checkpoints: bool = False

    def plan(self, check: DirectoryCheck) -> list[Step]:
        """Return what to do about what was found."""
        return plan_repair(
            check,
            drop_definitions=self.drop_definitions,
            drop_checkpoints=self.drop_checkpoints,
        )


def repair_directory(
    storage_path: Path,
    options: RepairOptions,
    say: Callable[[str], None],
    filesystem: FileSystem | None = None,
) -> Repair:
    """Mend a data directory.

    Args:
        storage_path: A data directory on which no server runs.
        options: What may be given up.
        say: Told each step in a line, before it is done.
        filesystem: Of what is mended; the operating system's by default.

    Raises:
        StartupError: A server runs on it, or it cannot be used.
        OSError: A file operation failed; what was done before it stays, and may be gone on with.
        LogError: The same.
        OffsetsError: The same.
    """
    repair = Repair()
    for _ in range(ROUNDS_MAX):
        lock = lock_storage(storage_path, FileSystem())
        try:
            _Mending(storage_path, options, repair, say, filesystem or FileSystem()).run()
        finally:
            lock.release()
        _recover(storage_path, repair, say)
        repair.check = check_directory(load_stored_queues(storage_path))
        plan = options.plan(repair.check)
        repair.left = [step for step in plan if step.remedy is Remedy.NONE]
        if len(repair.left) == len(plan):
            break
        # Recovery has brought something to light.
    return repair


def _recover(storage_path: Path, repair: Repair, say: Callable[[str], None]) -> None:
    say("recover as a start does")
    try:
        report = recover_directory(storage_path, is_dry_run=False, accepted=repair.dropped)
    except StartupError as error:
        say(f"not recovered: {error.message}")
    else:
        repair.lost += _newly_lost(storage_path, report)


def _newly_lost(storage_path: Path, report: StartReport) -> list[tuple[StoredQueue, int, int]]:
    """Return what a recovery has missed, and noted in the logs: no later start tells it as new."""
    queues = {
        (queue.vhost, queue.name, queue.is_delay_queue): queue
        for queue in load_stored_queues(storage_path).queues
    }
    lost: list[tuple[StoredQueue, int, int]] = []
    for found in report.queues:
        queue = queues.get((found.vhost, found.name, found.is_delay_queue))
        if queue is None or found.recovery is None:
            continue
        noted = set(found.recovery.noted)
        lost += [(queue, *each) for each in found.recovery.lost if each not in noted]
    return lost


class _Mending:
    def __init__(
        self,
        storage_path: Path,
        options: RepairOptions,
        repair: Repair,
        say: Callable[[str], None],
        filesystem: FileSystem,
    ) -> None:
        self._storage_path = storage_path
        self._options = options
        self._repair = repair
        self._say = say
        self._filesystem = filesystem
        self._quarantine = Quarantine(storage_path, self._filesystem)
        self._lost: dict[UUID, list[tuple[int, int]]] = {}

    def run(self) -> None:
        try:
            self._mend()
        finally:
            # What fails half-way does not take back what was done before it.
            self._settle_lost()
            if self._quarantine.moved:
                self._repair.quarantine.append(self._quarantine.path)

    def _mend(self) -> None:
        for _ in range(PASSES_MAX):
            stored = load_stored_queues(self._storage_path)
            # The lock is ours: nobody writes.
            stored.is_live = False
            check = check_directory(stored)
            steps = [
                step
                for step in self._options.plan(check)
                if step.remedy not in (Remedy.NONE, Remedy.RECOVER)
            ]
            if not steps:
                break
            # What the others are about may be in its place then.
            steps = [step for step in steps if step.remedy is Remedy.RENAME] or steps
            checks = {each.queue.incarnation: each for each in check.queues}
            for step in steps:
                self._say(f"{step.remedy.value} {step.path}: {step.reason}")
                queue_check = checks[step.queue.incarnation] if step.queue else None
                self._do(step, queue_check)
                self._repair.done.append(step)

    def _do(self, step: Step, check: QueueCheck | None) -> None:
        if check is not None and step.remedy is Remedy.REBUILD_INDEX:
            self._rebuild_index(step.path, check)
        elif step.path.suffix == ".json":
            self._drop_definition(step.path)
        elif not self._filesystem.exists(step.path):
            # It went with another step.
            return
        elif check is not None and step.remedy is Remedy.REWRITE:
            self._rewrite(step.path, check)
        elif check is not None and step.remedy is Remedy.RENAME:
            self._put_in_place(step.path, check)
        elif step.path.name == "offsets":
            self._repair.dropped.add(Part.CHECKPOINTS)
            for path in sorted(step.path.glob("checkpoint-*.log")):
                self._quarantine.take(path)
        else:
            self._quarantine.take(step.path)

    def _rewrite(self, path: Path, check: QueueCheck) -> None:
        directory, filesystem, queue = check.queue.directory, self._filesystem, check.queue
        names = own_segments(directory, queue.identity, filesystem).names
        at = [name.file_name for name in names].index(path.name)
        is_last = at + 1 == len(names)
        end_offset = 0 if is_last else names[at + 1].base_offset
        end = read_durable_end(filesystem, directory, queue.incarnation)
        if is_last and end is not None:
            # No offset that was given out is given out again, and `end` speaks of the old file.
            end_offset = end.recovery_point
        before = check.log.segments[at - 1].segment.summary if at else None
        rewritten = rewrite_segment(
            directory,
            names[at],
            queue.identity,
            filesystem,
            end_offset=end_offset,
            previous_timestamp_ns=before.last_timestamp_ns if before else 0,
        )
        try:
            for old in (path, path.with_suffix(".index")):
                if filesystem.exists(old):
                    self._quarantine.copy(old)
            swap_in(directory, names[at], rewritten, filesystem)
        except OSError:
            with suppress(OSError):
                filesystem.unlink(rewritten.path)
            raise
        self._note_lost(queue, rewritten)
        if end is not None and end.segment_base_offset == names[at].base_offset:
            # It speaks of the old file. Not before: what it said is in the new one now.
            self._quarantine.take(directory / END_FILE_NAME)
        rebuild_index(directory, rewritten.name, queue.identity, filesystem)

    def _put_in_place(self, path: Path, check: QueueCheck) -> None:
        """Give a segment the name that its header says; what has that name goes to quarantine."""
        queue, filesystem = check.queue, self._filesystem
        for stranger in own_segments(queue.directory, queue.identity, filesystem).strangers:
            if stranger.said is not None and stranger.name.file_name == path.name:
                target = path.with_name(stranger.said.file_name)
                if filesystem.exists(target):
                    self._quarantine.take(target)
                filesystem.rename(path, target)
                filesystem.sync_directory(path.parent)

    def _note_lost(self, queue: StoredQueue, rewritten: RewrittenSegment) -> None:
        for start, end in rewritten.lost:
            self._repair.lost.append((queue, start, end))
            self._lost.setdefault(queue.incarnation, []).append((start, end))

    def _rebuild_index(self, path: Path, check: QueueCheck) -> None:
        directory, identity = check.queue.directory, check.queue.identity
        names = own_segments(directory, identity, self._filesystem).names
        by_index: dict[str, SegmentName] = {name.index_name: name for name in names}
        if self._filesystem.exists(path):
            self._quarantine.take(path)
        if path.name in by_index:
            rebuild_index(directory, by_index[path.name], check.queue.identity, self._filesystem)

    def _drop_definition(self, path: Path) -> None:
        """Set a definition aside, or what proves one that is missing: logs and bindings."""
        self._repair.dropped.add(Part.DEFINITIONS)
        kind, vhost, name = path.parent.parent.name, path.parent.name, path.stem
        logs = self._storage_path / LOGS_NAME / vhost / name
        if kind == QUEUES and self._filesystem.exists(logs):
            self._quarantine.take(logs)
        if self._filesystem.exists(path):
            self._quarantine.take(path)
            return
        root = self._storage_path / "metadata"
        for document in load_stored_queues(self._storage_path).report.documents:
            if document.kind == BINDINGS and encode_name(document.vhost) == vhost:
                ends = {(each, encode_name(end)) for each, end in binding_ends(document)}
                if (kind, name) in ends:
                    place = document_path(root, document.kind, document.vhost, document.name)
                    self._quarantine.take(place)

    def _settle_lost(self) -> None:
        """Let the checkpoint say that nobody is to wait for what was lost."""
        if self._lost:
            settle_in_checkpoint(self._storage_path, self._filesystem, self._lost)
