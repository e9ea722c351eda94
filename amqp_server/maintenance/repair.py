"""Repairs a data directory on which no server runs. Nothing is removed without a copy.

Each pass checks the directory and repairs what it can; the next check may find problems that were
hidden before. The repair ends with the same recovery as a start of the server.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqp_server.access.permissions import PERMISSIONS, TOPIC_PERMISSIONS
from amqp_server.access.user import ACCESS, FIRST_USER, USERS, first_user_record
from amqp_server.base.errors import StartupError
from amqp_server.broker.definitions import BINDINGS, QUEUES, binding_ends
from amqp_server.maintenance.directory_check import DirectoryCheck, check_directory
from amqp_server.maintenance.repair_plan import Remedy, Step, plan_repair
from amqp_server.maintenance.settling import settle_in_checkpoint
from amqp_server.maintenance.stored_queues import StoredQueue, load_stored_queues
from amqp_server.offline_recovery import recover_directory
from amqp_server.recovery.missing_parts import Part
from amqp_server.recovery.quarantine import Quarantine
from amqp_server.recovery.storage_lock import lock_storage
from appendlog import FileSystem
from appendlog.recovery.own_segments import own_segments
from appendlog.repairing.index_rebuild import rebuild_index
from appendlog.repairing.segment_rewrite import RewrittenSegment, rewrite_segment, swap_in
from appendlog.segments.durable_end import END_FILE_NAME, read_durable_end
from appendlog.segments.segment import SegmentName
from metadata.direct_write import write_document
from metadata.document_files import DocumentFiles
from metadata.name_list import forget_name, place_of_path
from metadata.names import LOGS_NAME, encode_name
from metadata.paths import document_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from amqp_server.maintenance.directory_check import QueueCheck
    from amqp_server.recovery.start_report import StartReport

ROUNDS_MAX: Final = 3
"""Rounds of repair and recovery: a recovery may reveal problems that were hidden before."""
PASSES_MAX: Final = 4
"""Passes of check and repair a round; a pass that changes nothing is the last."""


@dataclass(slots=True)
class Repair:
    """Result of a repair.

    Attributes:
        done: Completed steps, in order.
        left: Problems that could not be repaired.
        lost: Lost offsets `[start, end)` by queue: they were in damaged parts, or the final
            recovery found them missing.
        dropped: Parts of the directory from which something went to quarantine. If such a part is
            empty now, its loss counts as accepted.
        quarantine: Directories with the copies, one for each round; empty when nothing was taken
            out.
        check: Result of the final check.
    """

    done: list[Step] = field(default_factory=list)
    left: list[Step] = field(default_factory=list)
    lost: list[tuple[StoredQueue, int, int]] = field(default_factory=list)
    dropped: set[Part] = field(default_factory=set)
    quarantine: list[Path] = field(default_factory=list)
    check: DirectoryCheck | None = None


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """Options of the operator; see `plan_repair`."""

    drop_definitions: bool = False
    drop_checkpoints: bool = False

    def plan(self, check: DirectoryCheck) -> list[Step]:
        """Return the steps for the problems of a check."""
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
    """Repair a data directory.

    Args:
        storage_path: A data directory on which no server runs.
        options: What the operator allows to drop.
        say: Called with one line for each step, before the step.
        filesystem: File operations of the repair; by default the operating system's.

    Raises:
        StartupError: A server runs on the directory, or it cannot be used.
        OSError: A file operation failed. Completed steps stay, and the repair can be run again.
        LogError: A log could not be read or written; as for OSError.
        OffsetsError: A checkpoint could not be read or written; as for OSError.
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
        # The recovery has revealed another problem.
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
    """Return what this recovery reported as lost for the first time."""
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
            # Even if a step fails, record the losses of the completed ones.
            self._settle_lost()
            if self._quarantine.moved:
                self._repair.quarantine.append(self._quarantine.path)

    def _mend(self) -> None:
        for _ in range(PASSES_MAX):
            stored = load_stored_queues(self._storage_path)
            # This process has locked the directory, so no other one writes.
            stored.is_live = False
            check = check_directory(stored)
            steps = [
                step
                for step in self._options.plan(check)
                if step.remedy not in (Remedy.NONE, Remedy.RECOVER)
            ]
            if not steps:
                break
            # Rename first: the other steps may concern a file that a rename replaces.
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
            # An earlier step has moved it.
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
        directory = check.queue.directory
        filesystem = self._filesystem
        queue = check.queue
        names = own_segments(directory, queue.identity, filesystem).names
        at = [name.file_name for name in names].index(path.name)
        is_last = at + 1 == len(names)
        end_offset = 0 if is_last else names[at + 1].base_offset
        end = read_durable_end(filesystem, directory, queue.incarnation)
        if is_last and end is not None:
            # `end` refers to the old file. Continue above it: an offset must not be used twice.
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
            # `end` refers to the old file. Move it only now: its content is in the new file.
            self._quarantine.take(directory / END_FILE_NAME)
        rebuild_index(directory, rewritten.name, queue.identity, filesystem)

    def _put_in_place(self, path: Path, check: QueueCheck) -> None:
        """Rename a segment as its header says; a file with that name goes to quarantine."""
        queue = check.queue
        filesystem = self._filesystem
        for foreign in own_segments(queue.directory, queue.identity, filesystem).foreign_files:
            if foreign.header_name is not None and foreign.name.file_name == path.name:
                target = path.with_name(foreign.header_name.file_name)
                if filesystem.exists(target):
                    self._quarantine.take(target)
                filesystem.rename(path, target)
                filesystem.sync_directory(path.parent)

    def _note_lost(self, queue: StoredQueue, rewritten: RewrittenSegment) -> None:
        for start, end in rewritten.lost:
            self._repair.lost.append((queue, start, end))
            self._lost.setdefault(queue.incarnation, []).append((start, end))

    def _rebuild_index(self, path: Path, check: QueueCheck) -> None:
        directory = check.queue.directory
        identity = check.queue.identity
        names = own_segments(directory, identity, self._filesystem).names
        by_index: dict[str, SegmentName] = {name.index_name: name for name in names}
        if self._filesystem.exists(path):
            self._quarantine.take(path)
        if path.name in by_index:
            rebuild_index(directory, by_index[path.name], check.queue.identity, self._filesystem)

    def _drop_definition(self, path: Path) -> None:
        """Move a definition to quarantine, or else the logs and bindings that prove it."""
        self._repair.dropped.add(Part.DEFINITIONS)
        kind, vhost, name = path.parent.parent.name, path.parent.name, path.stem
        logs = self._storage_path / LOGS_NAME / vhost / name
        if kind == QUEUES and self._filesystem.exists(logs):
            self._quarantine.take(logs)
        root, files = self._storage_path / "metadata", DocumentFiles(self._filesystem)
        forget_name(root, files, place_of_path(path))
        if (kind, name) == (ACCESS, encode_name(FIRST_USER)):
            # The operator knows now that there is no first user: a start must not miss the record.
            if self._filesystem.exists(path):
                self._quarantine.take(path)
            write_document(root, first_user_record(""), files)
            return
        if kind == USERS:
            # The permissions of a user prove the user.
            for row in (PERMISSIONS, TOPIC_PERMISSIONS):
                for found in sorted(root.glob(f"{row}/*/{path.name}")):
                    forget_name(root, files, place_of_path(found))
                    self._quarantine.take(found)
        if self._filesystem.exists(path):
            self._quarantine.take(path)
            return
        for document in load_stored_queues(self._storage_path).report.documents:
            if document.kind == BINDINGS and encode_name(document.vhost) == vhost:
                ends = {(each, encode_name(end)) for each, end in binding_ends(document)}
                if (kind, name) in ends:
                    place = document_path(root, document.kind, document.vhost, document.name)
                    self._quarantine.take(place)

    def _settle_lost(self) -> None:
        """Settle the lost offsets in the checkpoint, so that the queue does not wait for them."""
        if self._lost:
            settle_in_checkpoint(self._storage_path, self._filesystem, self._lost)
