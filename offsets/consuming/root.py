"""Data directory of logs, with one writing process and any number of reading processes.

    <root>/LOCK FORMAT WRITER          locks (`claims`) and the format version
    <root>/metadata/queues/%2f/*.json  definitions of the logs (`catalog`)
    <root>/logs/%2f/<log>/<incarnation>/
    <root>/offsets/                    checkpoints of the groups

It has the same files and formats as a server's data directory: commands and Spark can read it. A
server that is started on it, once no program uses it, offers its logs as streams.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from appendlog import (
    AppendedRange,
    EmbeddedOptions,
    FileSystem,
    Log,
    LogClosedError,
    LogError,
    LogWriter,
)
from appendlog.embedded.forks import abandon_in_children
from appendlog.embedded.periodic import Periodic, sync_all
from appendlog.embedded.records import Headers
from appendlog.reclaim.leases import Leases
from metadata.errors import MetadataError
from offsets.consuming.catalog import DEFAULT_VHOST, LogCatalog
from offsets.consuming.claims import Claim, last_seen_ns, remove_log_locks
from offsets.consuming.clean_up import CleanUp, LogCleanUp, LogUse, held_back, removal_ends
from offsets.consuming.groups import groups_by_log
from offsets.consuming.known_groups import KnownGroup, KnownGroups
from offsets.consuming.root_statistics import RootLogStatistics, root_log_statistics
from offsets.consuming.shared_checkpoints import SharedCheckpoints
from offsets.errors import LogNotFoundError, OffsetsError
from offsets.group_checkpoint import GroupCheckpoint

logger: Final = logging.getLogger("offsets.consuming.root")


class LogRoot:
    """The only writer of a data directory's logs, made by `LogRoot.open`. Thread-safe.

    Attributes:
        path: Data directory.
        options: Options of all logs.
    """

    def __init__(
        self,
        path: Path,
        options: EmbeddedOptions,
        claim: Claim,
        catalog: LogCatalog,
        known_ends: Mapping[UUID, int],
        filesystem: FileSystem,
        groups: KnownGroups,
    ) -> None:
        """Take claimed parts; callers use `open`."""
        self.path: Final = path
        self.options: Final = options
        self._claim = claim
        self._catalog = catalog
        # Valid for a log until it is opened, since no other process appends to it.
        self._known_ends = known_ends
        self._groups = groups
        self._leases = Leases(path, filesystem)
        self._filesystem = filesystem
        self._lock = threading.Lock()
        self._cleaning = threading.Lock()
        self._writers: dict[str, LogWriter] = {}
        self._is_closing = self._is_closed = False
        self._failed: LogError | None = None
        self._periodic: list[Periodic] = []
        abandon_in_children(self)

    @classmethod
    def open(
        cls,
        path: Path | str,
        options: EmbeddedOptions | None = None,
        vhost: str = DEFAULT_VHOST,
        filesystem: FileSystem | None = None,
    ) -> Self:
        """Claim a data directory for writing; makes it and its parents if they are missing.

        Args:
            path: Data directory.
            options: Options of all logs; the defaults suit a machine with reliable power.
            vhost: Virtual host of the logs.
            filesystem: File operations; those of the operating system by default.

        Raises:
            StorageLockedError: A process, perhaps this one, writes there, or a server uses it;
                `pid` is that process.
            StorageFormatError: The directory is of another format version.
            StorageUnavailableError: The directory cannot be made, opened or written.
            CheckpointFailedError: The checkpoints of groups cannot be read.
        """
        root = Path(path)
        filesystem = filesystem or FileSystem()
        claim = Claim.as_writer(root)
        opened: Self | None = None
        try:
            known_ends = SharedCheckpoints(root, filesystem).known_ends()
            catalog = LogCatalog(root, vhost, filesystem)
            _remove_logs(root, catalog.finish_removals(), filesystem)
            groups = KnownGroups(root, vhost, filesystem)
            options = options or EmbeddedOptions()
            opened = cls(root, options, claim, catalog, known_ends, filesystem, groups)
            opened._start_threads()
        except BaseException:
            if opened is not None:
                opened.close()
            claim.release()
            raise
        return opened

    def log(self, name: str) -> LogWriter:
        """Return the writer of a log; the first call makes and recovers the log.

        Args:
            name: Name of the log, 1 to 255 bytes of UTF-8: `../x`, `a/b` and `CON` are safe.

        Raises:
            InvalidLogNameError: The name is not valid, or belongs to a queue that is not a stream.
            LogError: The log cannot be opened.
            DocumentWriteError: The log is new, and its definition cannot be written.
        """
        writer = self._writers.get(name)
        if writer is not None:
            return writer
        with self._lock:
            self._check()
            if name not in self._writers:
                self._writers[name] = self._open(name)
            return self._writers[name]

    def append(
        self, name: str, payload: bytes, key: bytes = b"", headers: Headers | None = None
    ) -> int:
        """Append one record to a log and return its offset; see `LogWriter.append`."""
        return self.log(name).append(payload, key, headers)

    def append_batch(
        self, name: str, payloads: list[bytes], key: bytes = b"", headers: Headers | None = None
    ) -> AppendedRange:
        """Append records with one key to a log; see `LogWriter.append_batch`."""
        return self.log(name).append_batch(payloads, key, headers)

    def names(self, pattern: str = "*") -> list[str]:
        """Return the names of all logs, in order, opened or not.

        Raises:
            OSError: The directory cannot be read.
        """
        with self._lock:
            return list(self._catalog.find(pattern))

    def sync(self) -> None:
        """Write all appended records of all logs to the disk.

        Raises:
            LogFailedError: Failure of the first log that failed; the others were synced.
        """
        failed: LogError | None = None
        with self._lock:
            self._check()
            writers = list(self._writers.values())
        for writer in writers:
            try:
                writer.sync()
            except LogError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def clean_up(self, *, force: bool = False) -> CleanUp:
        """Remove the segments that exceed the options' bounds; a thread does so periodically.

        Args:
            force: Whether to apply the bounds even to segments that groups have not read.

        Returns:
            Removed segments, and segments that were kept for groups.

        Raises:
            LogFailedError: A file cannot be removed.
            CheckpointFailedError: The checkpoints of groups cannot be read; nothing was removed.
            OSError: The patterns of groups cannot be read; nothing was removed.
        """
        with self._cleaning:
            writers = {name: self.log(name) for name in self.names()}
            policy = self.options.retention()
            now_ns = time.time_ns()
            floors = self._floors(writers, now_ns)
            keep_since_ns = policy.keep_since_ns(now_ns) if policy.has_bounds else 0
            logs: dict[str, LogUse] = {}
            for name, writer in writers.items():
                floor = min(floors[name].values(), default=writer.log.log_end_offset)
                writer.roll_if_due(now_ns, floor, keep_since_ns)
                logs[name] = LogUse(writer.log.segments, floors[name])
            total = self.options.retain_total_bytes
            wanted = removal_ends(logs, policy, total, now_ns, ignores_groups=True)
            ends = removal_ends(logs, policy, total, now_ns, ignores_groups=force)
            leased = self._leases.low_offsets()
            done = {}
            for name, log in logs.items():
                held = held_back(name, log, ends[name], wanted[name])
                # Segments that an export reads stay until it ends, or has been dead for two
                # minutes.
                low_offset = leased.get(writers[name].log.identity.incarnation, ends[name])
                done[name] = self._remove(writers[name], log, min(ends[name], low_offset), held)
            return CleanUp({n: d for n, d in done.items() if d != LogCleanUp(n)})

    def statistics(self, pattern: str = "*") -> dict[str, RootLogStatistics]:
        """Return the statistics of each log, and of each group in it; opens logs that are not open.

        Raises:
            LogError: A log cannot be opened.
            CheckpointFailedError: The checkpoints of groups cannot be read.
        """
        writers = {name: self.log(name) for name in self.names(pattern)}
        groups: dict[UUID, list[GroupCheckpoint]] = {}
        for state in SharedCheckpoints(self.path, self._filesystem).load().values():
            groups.setdefault(state.incarnation, []).append(state)
        return {
            name: root_log_statistics(writer, groups.get(writer.log.identity.incarnation, ()))
            for name, writer in writers.items()
        }

    def delete(self, name: str) -> None:
        """Remove a log with all its files. A later log of the same name begins at offset 0.

        The log is marked as deleted, then its definition and its files are removed. After a crash
        in between, the log still exists, or a later start removes the rest because of the mark.

        Raises:
            LogNotFoundError: There is no such log.
            DocumentWriteError: The mark or the removal failed; the log may still exist.
            LogFailedError: A file cannot be removed.
        """
        with self._lock:
            self._check()
            place = self._catalog.find().get(name)
            if place is None:
                raise LogNotFoundError(name, self.path)
            if name not in self._writers:
                self._writers[name] = self._open(name)
            writer = self._writers[name]
            with suppress(LogError):
                # Later appends are refused. If the definition stays, the log is opened again with
                # all its records.
                writer.close()
            del self._writers[name]
            self._catalog.remove(place)
            # Before the files: as long as they are there, the next writer knows what is left to do.
            _remove_logs(self.path, [place.identity.incarnation], self._filesystem)
            writer.delete()
            with suppress(OSError):
                # Another log of the same name, or files left by a crash, keep the directory.
                self._filesystem.rmdir(place.directory.parent)

    def close(self) -> None:
        """Refuse appends, write everything to the disk, and release the directory.

        A second call does nothing, or completes a first one that an exception has interrupted.

        Raises:
            LogFailedError: Failure of the first log that failed; the others are closed and
                complete.
        """
        try:
            self._close()
        except LogError:
            raise
        except BaseException:
            # From a signal handler: finish the interrupted close before its exception continues.
            self._close()
            raise

    def abandon(self) -> None:
        """Count as closed, and leave the directory to the parent. For the child of a fork."""
        self._is_closing = self._is_closed = True
        # A thread of the parent, missing in the child, may have held the locks.
        self._lock = threading.Lock()
        self._cleaning = threading.Lock()
        self._claim.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self, name: str) -> LogWriter:
        place = self._catalog.create(name)
        log, recovery = Log.open(
            place.directory,
            place.identity,
            self.options.log_options(),
            self._filesystem,
            known_end=self._known_ends.get(place.identity.incarnation, 0),
        )
        return LogWriter(log, recovery, self.options)

    def _floors(self, writers: Mapping[str, LogWriter], now_ns: int) -> dict[str, dict[str, int]]:
        """Return the floors of each log's groups; its first record for a group new to it."""
        known = self._groups.load()
        states = SharedCheckpoints(self.path, self._filesystem).load()
        logs = {name: writer.log.identity.incarnation for name, writer in writers.items()}
        groups = groups_by_log(logs, known.values(), states)
        expired = self._expired(known, states, now_ns)
        return {
            name: {
                group: writers[name].log.log_start_offset if state is None else state.start or 0
                for group, state in counting.items()
                if group not in expired
            }
            for name, counting in groups.items()
        }

    def _expired(
        self,
        known: Mapping[str, KnownGroup],
        states: Mapping[tuple[UUID, str], GroupCheckpoint],
        now_ns: int,
    ) -> set[str]:
        """Return the groups that have had no consumer for so long that they no longer count."""
        seconds = self.options.group_expires_after_seconds
        if not seconds:
            return set()
        newest_ns = {group.name: group.since_ns for group in known.values()}
        for (_, group), state in states.items():
            newest_ns[group] = max(newest_ns.get(group, 0), state.updated_at_ns)
        since_ns = now_ns - int(seconds * 1e9)
        quiet = {group for group, seen_ns in newest_ns.items() if seen_ns < since_ns}
        seen = {group: last_seen_ns(self.path, group) for group in quiet}
        return {
            group for group, seen_ns in seen.items() if seen_ns is not None and seen_ns < since_ns
        }

    def _remove(self, writer: LogWriter, log: LogUse, end: int, held: LogCleanUp) -> LogCleanUp:
        gone = [each for each in log.segments[:-1] if each.is_sealed and each.end_offset <= end]
        if not gone:
            return held
        removed_bytes = writer.remove_below(end)
        return replace(
            held,
            removed_segments=len(gone),
            removed_bytes=removed_bytes,
            removed_records=sum(each.summary.record_count for each in gone),
        )

    def _check(self) -> None:
        if self._is_closing:
            raise LogClosedError(self.path)

    def _start_threads(self) -> None:
        options = self.options
        if options.sync_interval_seconds:
            sync = Periodic(self._sync_due, options.sync_interval_seconds, "log-sync")
            self._periodic.append(sync)
        if options.retention_interval_seconds and options.removes:
            retention = Periodic(self.clean_up, options.retention_interval_seconds, "log-retention")
            self._periodic.append(retention)

    def _sync_due(self) -> None:
        with self._lock:
            writers = list(self._writers.values())
        sync_all(writers)

    def _close(self) -> None:
        if self._is_closed:
            return
        for each in self._periodic:
            each.close()
        with self._lock:
            self._is_closing = True
            for writer in self._writers.values():
                try:
                    writer.close()
                except LogError as error:
                    self._failed = self._failed or error
        self._claim.release()
        self._is_closed = True
        if self._failed is not None:
            raise self._failed


def _remove_logs(root: Path, incarnations: list[UUID], filesystem: FileSystem) -> None:
    """Remove the consumer locks and group positions of logs that are gone."""
    if not incarnations:
        return
    for incarnation in incarnations:
        remove_log_locks(root, incarnation)
    checkpoints = SharedCheckpoints(root, filesystem)
    try:
        checkpoints.remove_logs(incarnations)
    except (MetadataError, OffsetsError) as error:
        # They mean nothing any more, and take little room.
        logger.warning("places in deleted logs left path=%s error=%s", root, error)
    finally:
        checkpoints.close()
