"""Copies a data directory, with or without a running server, so that a server can start on it.

The order of the steps makes the copy consistent, as if it were of one moment:

1. Open the redo journal, so that no later commit can be missed.
2. Copy checkpoints before logs: what they call settled is then in the logs (invariant I4), and so
   is what they call durable.
3. List the logs, copy the definitions, then copy the logs. A log that is newer than the list is
   copied only with its definition. Among the definitions, bindings are copied first. Definitions
   that are removed during the copy are removed from it in the opposite order. So none refers to
   something that is missing, which would count as damage.
4. Copy each log's `end` before its segments, so that it never refers to bytes that are missing.
5. Read the redo journal: commits that are in some of the copied logs get into all of them.
6. Remove queues that were deleted during the copy from the copied checkpoint. Their logs may be
   incomplete or missing in the copy, and a start on it would report that as a loss.
7. Write FORMAT last: an interrupted copy is no data directory.

A message that is settled during the copy may return from it. If retention removed its segment
during the copy, the copied checkpoint records it as settled instead.

Sealed segments never change, so they are hard-linked where the file system allows it, which costs
no space. Only the user can read the copy, whatever the umask is: directories are 0700, files 0600.
A linked segment keeps the rights of the original, but its directory is closed to others.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from amqp_server.base.errors import StartupError
from amqp_server.broker.damaged_documents import LISTED_KINDS
from amqp_server.broker.definitions import EXCHANGES, stored_incarnation
from amqp_server.broker.transfers.delay_queue import DELAY_QUEUE_NAME
from amqp_server.maintenance.settling import settle_in_checkpoint
from amqp_server.maintenance.stored_queues import load_stored_queues
from amqp_server.recovery.start_report_file import REPORT_NAME, known_names
from appendlog import DurableDirectories, FileSystem
from appendlog.files.deleted_mark import has_deleted_mark
from appendlog.files.descriptors import Descriptors
from appendlog.files.durable_directories import existing_root
from appendlog.files.filesystem import DIRECTORY_MODE, FILE_MODE
from appendlog.recovery.log_owner import read_segment_header
from appendlog.segments.durable_end import END_FILE_NAME
from appendlog.segments.sealed import read_footer
from appendlog.segments.segment import SegmentName, segment_names
from metadata.document_files import DocumentFiles
from metadata.double_lock import WRITER_NAME
from metadata.loading import load_documents
from metadata.log_directories import find_logs
from metadata.name_list import NameList, place_of_path
from metadata.names import LOGS_NAME, log_directory
from metadata.paths import document_path
from metadata.reading_lock import check_data_directory
from metadata.redo_file import REDO_NAME
from offsets import read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ATTEMPTS_MAX: Final = 100
"""Attempts to copy files that change during the copy."""
IMPORT_ATTEMPTS_MAX: Final = 600
IMPORT_PAUSE_SECONDS: Final = 0.1
"""Looks at an import of definitions that is being written, and the time between two of them."""
_DOCUMENT: Final = ".json"
_CHECKPOINT: Final = re.compile(r"checkpoint-\d{20}\.log")
_REDO: Final = re.compile(r"redo-(\d{20})\.log")


class BackupFailedError(Exception):
    """The copy is incomplete and has no FORMAT file. The text is one line."""


@dataclass(slots=True)
class Backup:
    """Counts of what was copied.

    Attributes:
        documents: Definitions.
        logs: Log directories.
        segments: Segments in these logs.
        linked_bytes: Bytes of segments that share their space with the original.
        copied_bytes: Bytes of all other files.
        redo_files: Files of the redo journal.
    """

    documents: int = 0
    logs: int = 0
    segments: int = 0
    linked_bytes: int = 0
    copied_bytes: int = 0
    redo_files: int = 0


def back_up(
    storage_path: Path,
    target: Path,
    *,
    may_link: bool,
    redo_number: Callable[[], int | None],
    on_log: Callable[[int, int], None] | None = None,
) -> Backup:
    """Copy a data directory. Changes nothing in it; a server may run on it.

    Args:
        storage_path: The data directory.
        target: Directory of the copy; created, and must be empty if it exists.
        may_link: Whether to hard-link sealed segments instead of copying them, where possible.
        redo_number: Returns the number of the newest file of the running server's redo journal;
            None when no server runs.
        on_log: Called after each log with the number of copied logs and of all logs.

    Returns:
        Counts of what was copied; it is on the disk.

    Raises:
        MetadataError: The source is no data directory, or has another format.
        StartupError: The target is not empty, or inside the data directory.
        BackupFailedError: The directory changed faster than it could be copied.
        OSError: A file cannot be read or written.
    """
    check_data_directory(storage_path)
    _make_target(storage_path, target)
    copy = _Copy(storage_path, target, may_link, redo_number, on_log)
    try:
        copy.run()
    finally:
        copy.close()
    return copy.done


def _make_target(storage_path: Path, target: Path) -> None:
    inside = storage_path.resolve()
    if inside in (target.resolve(), *target.resolve().parents):
        raise StartupError(f"{target} lies in the data directory {storage_path}")
    filesystem = FileSystem()
    DurableDirectories(existing_root(filesystem, target)).make(filesystem, target)
    if any(target.iterdir()):
        raise StartupError(f"{target} is not empty")


class _ImportState(NamedTuple):
    """When the directory of the definitions was changed, and whether an import is written."""

    changed_ns: int
    is_under_way: bool


class _Copy:
    def __init__(
        self,
        storage_path: Path,
        target: Path,
        may_link: bool,
        redo_number: Callable[[], int | None],
        on_log: Callable[[int, int], None] | None,
    ) -> None:
        self.done = Backup()
        self._source = storage_path
        self._target = target
        self._directories = DurableDirectories(target)
        self._may_link = may_link
        self._redo_number = redo_number
        self._on_log = on_log
        self._redo: dict[int, int] = {}
        self._removed: dict[UUID, list[tuple[int, int]]] = {}
        self._deleted: set[UUID] = set()
        self._is_running = False

    def run(self) -> None:
        known = self._redo_number()
        self._is_running = known is not None
        self._open_redo()
        self._copy_checkpoints()
        listed = set(self._find_logs())
        named = self._copy_documents()
        self._open_redo()
        self._remove_deleted_documents()
        self._list_names()
        kept = {log for document, log in named.items() if document.exists()}
        # Logs that no definition named before the copy are orphans: they prove what was lost.
        self._copy_logs(listed.difference(named.values()), kept)
        self._copy_redo(known)
        self._leave_deleted_out()
        if self._removed or self._deleted:
            settle_in_checkpoint(self._target, FileSystem(), self._removed, self._deleted)
        if (self._source / REPORT_NAME).exists():
            # Without the report, a copy that lacks a part would look like one that never had it.
            self._copy(self._source / REPORT_NAME, self._target / REPORT_NAME)
        elif (self._source / WRITER_NAME).exists():
            # No server has run here: the first one on the copy gives it its first user.
            (self._target / WRITER_NAME).touch(FILE_MODE)
        self._copy(self._source / "FORMAT", self._target / "FORMAT.tmp")
        # Sync everything before the rename that makes this a data directory.
        os.sync()
        (self._target / "FORMAT.tmp").rename(self._target / "FORMAT")
        os.sync()

    def close(self) -> None:
        for descriptor in self._redo.values():
            os.close(descriptor)
        self._redo.clear()

    def _open_redo(self) -> None:
        """Open all files of the journal: even files that are removed later can still be read."""
        directory = self._source / "transactions"
        for name in _names(directory):
            match = _REDO.fullmatch(name)
            if match and int(match[1]) not in self._redo:
                try:
                    descriptor = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                self._redo[int(match[1])] = descriptor

    def _copy_checkpoints(self) -> None:
        source, target = self._source / "offsets", self._target / "offsets"
        for _ in range(ATTEMPTS_MAX):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(DIRECTORY_MODE)
            try:
                for name in filter(_CHECKPOINT.fullmatch, _names(source)):
                    self._copy(source / name, target / name)
            except FileNotFoundError:
                # The server began a new generation and removed the old one.
                continue
            return
        raise BackupFailedError(f"{source} changed {ATTEMPTS_MAX} times while it was copied")

    def _find_logs(self) -> list[Path]:
        """Return the logs that are not being deleted."""
        found = find_logs(self._source / LOGS_NAME, FileSystem())
        return [log.path for log in found.check() if not log.is_deleted]

    def _unmarked(self) -> set[UUID]:
        found = find_logs(self._source / LOGS_NAME, FileSystem())
        return {log.incarnation for log in found.check() if not log.is_deleted}

    def _named_logs(self) -> dict[Path, Path]:
        """Return the log that each copied definition names, by the definition's path."""
        root = self._target / "metadata"
        named: dict[Path, Path] = {}
        for each in load_documents(root, DocumentFiles(), accepts_unsigned=True).documents:
            incarnation = stored_incarnation(each)
            if incarnation is not None:
                queue = DELAY_QUEUE_NAME if each.kind == EXCHANGES else each.name
                log = log_directory(self._source, each.vhost, queue, UUID(incarnation))
                named[document_path(root, each.kind, each.vhost, each.name)] = log
        return named

    def _remove_deleted_documents(self) -> None:
        """Remove definitions from the copy that were removed from the source since.

        A deletion removes bindings before their ends, and its note last. So if a binding's end is
        not in the copy, the binding was removed before this method looks for it.
        """
        root = self._target / "metadata"
        for kind in reversed(_names(root)):
            for vhost in _names(root / kind):
                left = set(_names(self._source / "metadata" / kind / vhost))
                for name in _names(root / kind / vhost):
                    if name not in left:
                        (root / kind / vhost / name).unlink()
                        self.done.documents -= 1

    def _list_names(self) -> None:
        """List the documents of the copy, and those that the source has lost.

        The list of a running server may be newer or older than its copied documents.
        """
        if not known_names(self._source).expects_names:
            return
        report = load_stored_queues(self._source).report
        missing = {
            (each.kind, each.encoded_vhost, f"{each.encoded_name}{_DOCUMENT}")
            for each in report.unreadable
            if each.is_missing and each.encoded_name
        }
        root = self._target / "metadata"
        copied = {place_of_path(path) for path in root.glob(f"*/*/*{_DOCUMENT}")}
        names = NameList(root, DocumentFiles(), LISTED_KINDS)
        names.take_over(None, copied | missing)
        names.write()

    def _copy_documents(self) -> dict[Path, Path]:
        """Copy the definitions; return the logs that they name, by the definition's path.

        While a server writes the documents of an import, a copy would have some of them.

        Raises:
            BackupFailedError: Imports went on for too long.
        """
        for _ in range(IMPORT_ATTEMPTS_MAX):
            before = self._import_state()
            if before.is_under_way and self._is_running:
                time.sleep(IMPORT_PAUSE_SECONDS)
                continue
            named = self._copy_all_documents()
            if self._import_state() == before:
                return named
            # An import has begun or ended: the directory has changed.
            shutil.rmtree(self._target / "metadata", ignore_errors=True)
            self.done.documents = 0
        raise BackupFailedError(
            f"definitions are being imported into {self._source}: try again later"
        )

    def _import_state(self) -> _ImportState:
        root = self._source / "metadata"
        try:
            return _ImportState(root.stat().st_mtime_ns, (root / REDO_NAME).exists())
        except FileNotFoundError:
            return _ImportState(0, False)

    def _copy_all_documents(self) -> dict[Path, Path]:
        root = self._source / "metadata"
        if (root / REDO_NAME).exists():
            # No server writes its documents now: the next start does, also on the copy.
            self._make_directory(self._target / "metadata")
            self._copy(root / REDO_NAME, self._target / "metadata" / REDO_NAME)
        # Bindings first: their ends are then copied too, unless they were removed together.
        for kind in _names(root):
            for vhost in _names(root / kind):
                directory = self._target / "metadata" / kind / vhost
                self._make_directory(directory)
                for name in _names(root / kind / vhost):
                    if not name.endswith(_DOCUMENT):
                        continue
                    try:
                        self._copy(root / kind / vhost / name, directory / name)
                    except FileNotFoundError:
                        continue  # It was removed from the source, so it is not in the copy either.
                    self.done.documents += 1
                # A commit may be written and its file removed before all definitions are copied.
                self._open_redo()
        return self._named_logs()

    def _copy_logs(self, orphans: set[Path], named: set[Path]) -> None:
        files = FileSystem()
        logs = sorted(
            [
                *orphans.intersection(self._find_logs()),
                *(log for log in named if log.is_dir() and not has_deleted_mark(files, log)),
            ]
        )
        self._make_directory(self._target / LOGS_NAME)
        for number, log in enumerate(logs, 1):
            self._copy_log(log, self._target / log.relative_to(self._source))
            # A commit in this log may be written and its file removed before all logs are copied.
            self._open_redo()
            if self._on_log is not None:
                self._on_log(number, len(logs))

    def _copy_log(self, source: Path, target: Path) -> None:
        self._make_directory(target)
        for _ in range(ATTEMPTS_MAX):
            try:
                self._copy_segments(source, target)
            except FileNotFoundError:
                if source.is_dir():
                    continue
                # The queue was deleted: the copy brings back an empty one, as a crash may.
                shutil.rmtree(target)
                return
            self.done.logs += 1
            self._count_segments(target)
            return
        raise BackupFailedError(f"{source} changed {ATTEMPTS_MAX} times while it was copied")

    def _copy_segments(self, source: Path, target: Path) -> None:
        """Copy a log, or the rest of it; raise FileNotFoundError if it changes during the copy."""
        if END_FILE_NAME in _names(source):
            self._copy(source / END_FILE_NAME, target / END_FILE_NAME)
        # List them after copying `end`, so that the list contains the segment to which it refers.
        segments = [
            name for name in segment_names(_names(source)) if (source / name.file_name).is_file()
        ]
        listed = {name.file_name for name in segments}
        for name in segment_names(_names(target)):
            # Removed since: all before it is settled too. Or it was the last segment and has grown.
            if (
                name.file_name not in listed
                or name is segments[-1]
                or not self._is_whole(source / name.file_name, target / name.file_name)
            ):
                (target / name.file_name).unlink()
        for name in segments:
            path = source / name.file_name
            if (target / name.file_name).exists():
                continue
            # A foreign file may follow the segment to which the server appends.
            is_sealed = name is not segments[-1] and _is_sealed(path, name)
            if not (is_sealed and self._link(path, target / name.file_name)):
                self._copy(path, target / name.file_name)
            index = source / name.index_name
            if is_sealed and index.exists():
                self._copy(index, target / name.index_name)

    def _leave_deleted_out(self) -> None:
        """Remove the logs of deleted queues from the copy.

        Their definitions in the copy bring back empty queues, as a crash may.
        """
        stored = load_stored_queues(self._source)
        if stored.report.unreadable or stored.malformed:
            # A log may belong to one of these definitions: no log can be called deleted.
            return
        found = read_checkpoint(self._target / "offsets", FileSystem())
        known = {UUID(bytes=key) for key in found.entries}
        known |= {incarnation for incarnation, _ in found.group_checkpoints()}
        # A queue that has lost its definition is not deleted: its log has no mark.
        self._deleted = known - {queue.incarnation for queue in stored.queues} - self._unmarked()
        names = set(map(str, self._deleted))
        for log in [*(self._target / "logs").glob("*/*/*")]:
            if log.name in names:
                shutil.rmtree(log)
                self._removed.pop(UUID(log.name), None)

    @staticmethod
    def _is_whole(source: Path, target: Path) -> bool:
        return source.stat().st_size == target.stat().st_size

    def _count_segments(self, target: Path) -> None:
        """Count the copied segments, and record which offsets retention had removed before."""
        segments = segment_names(_names(target))
        self.done.segments += len(segments)
        if segments and segments[0].base_offset:
            try:
                incarnation = UUID(target.name)
            except ValueError:
                return
            self._removed[incarnation] = [(0, segments[0].base_offset)]

    def _link(self, source: Path, target: Path) -> bool:
        if not self._may_link:
            return False
        try:
            target.hardlink_to(source)
        except FileNotFoundError:
            raise
        except OSError:
            # The target is on another file system, or the file system has no links.
            return False
        self.done.linked_bytes += target.stat().st_size
        return True

    def _copy_redo(self, known: int | None) -> None:
        """Copy the journal's files; fail if one that was created during the copy is missing.

        Args:
            known: Number of the newest file before the copy; None if no server ran.
        """
        self._open_redo()
        newest = self._redo_number()
        numbers = sorted(self._redo)
        if (known is None) != (newest is None):
            raise BackupFailedError(
                "the server was started or stopped during the backup: try again"
            )
        if known is not None and newest is not None:
            missed = set(range(known + 1, newest + 1)) - self._redo.keys()
            if missed:
                raise BackupFailedError(
                    f"{len(missed)} files of the redo journal were removed before they could be "
                    "copied: try again when there are fewer commits"
                )
        directory = self._target / "transactions"
        self._make_directory(directory)
        for number in numbers:
            path = directory / f"redo-{number:020}.log"
            path.touch(FILE_MODE, exist_ok=False)
            with path.open("wb") as out:
                self.done.copied_bytes += _copy_descriptor(self._redo[number], out.fileno())
            self.done.redo_files += 1

    def _make_directory(self, path: Path) -> None:
        """Create a directory of the copy with its parents, for this user alone."""
        # `Path.mkdir(parents=True)` would create the parents with the umask's rights.
        self._directories.make(FileSystem(), path)

    def _copy(self, source: Path, target: Path) -> None:
        # Set the rights before the first byte: with the umask's rights others could read it.
        target.touch(FILE_MODE)
        shutil.copyfile(source, target)
        self.done.copied_bytes += target.stat().st_size


def _is_sealed(path: Path, name: SegmentName) -> bool:
    """Return whether a segment has its footer, so that nothing more is appended to it."""
    filesystem = FileSystem()
    descriptors = Descriptors(1)
    try:
        header = read_segment_header(path.parent, name, filesystem, descriptors)
        if header is None:
            return False
        with descriptors.borrow(filesystem, path, os.O_RDONLY) as descriptor:
            salt = header.identity.salt
            return read_footer(filesystem, descriptor, salt, name.base_offset) is not None
    finally:
        descriptors.close()


def _copy_descriptor(source: int, target: int) -> int:
    position = 0
    while data := os.pread(source, 1 << 20, position):
        position += os.write(target, data)
    return position


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - names, not paths
    except (FileNotFoundError, NotADirectoryError):
        return []
