"""Appending to one log from a program: batches in memory, and syncs by policy.

    append      ->  batch in memory    lost with the process
    flush       ->  kernel             lost with the machine
    sync        ->  disk               kept, and visible to readers

`append` assigns offset and time at once. An offset below the end of the last sync is never assigned
to another record. A higher one may be assigned again after a crash: only the crashed process has
seen it, because readers see only what is on the disk.

Any threads may append at the same time. One of them writes while others fill the next batch. A sync
that begins during another one waits for it and then has nothing left to do. So threads that sync
after each append share the syncs.

A signal handler may raise an exception anywhere in the main thread, as Ctrl-C does. A batch removes
its records only once they are written. An interrupted write leaves a mark; the next caller removes
what it left in the files, and writes the batch again.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from appendlog.append import Append
from appendlog.embedded.batch import Batch
from appendlog.embedded.forks import abandon_in_children
from appendlog.embedded.options import BATCH_BYTES_MAX, EmbeddedOptions
from appendlog.embedded.periodic import Periodic, sync_all
from appendlog.embedded.records import AppendedRange, Headers, Record, message_prefix
from appendlog.embedded.writer_statistics import WriterStatistics
from appendlog.errors import LogClosedError, LogError, RecordTooLargeError
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.log import Log
from appendlog.log_statistics import LogStatistics, log_statistics
from appendlog.recovery.recovery_report import RecoveryReport
from appendlog.segments.append_clock import AppendClock

MESSAGE_BYTES_MAX: Final = 128 << 20
"""Default maximum of a server's messages: a server must be able to read this log later."""


class LogWriter:
    """The only writer of a log, made by `LogWriter.open`. Thread-safe.

    Only a writer made by `open` syncs periodically; otherwise the caller has to.

    Args:
        log: Log that was just opened; the writer owns it from now on.
        recovery: Report of the log's recovery.
        options: Options of the writer and the log.

    Attributes:
        log: Log that is written; use it for reading and retention, never to append.
        recovery: Report of the log's recovery.
    """

    def __init__(self, log: Log, recovery: RecoveryReport, options: EmbeddedOptions) -> None:
        self.log: Final = log
        self.recovery: Final = recovery
        self._options: Final = options
        self._batch_bytes: Final = min(options.batch_bytes, options.sync_bytes or BATCH_BYTES_MAX)
        self._batch = Batch(log.identity.salt, log.log_end_offset, options.chunk_bytes)
        self._make_locks()
        self._clock: Final = AppendClock(log.directory, log.last_timestamp_ns)
        self._is_closing = self._is_closed = False
        # Changing: a change of the files is in progress, or was interrupted. May recover: the log
        # may be reopened after that, because no disk error was the cause.
        self._is_changing = False
        self._may_recover = False
        self._last_prefix: tuple[bytes, bytes] = (b"", message_prefix())
        self._appended_bytes = self._synced_bytes = 0
        self._flushed_batches = self._syncs = 0
        self._opened_end = log.log_end_offset
        self._periodic: Periodic | None = None
        abandon_in_children(self)

    @classmethod
    def open(
        cls,
        directory: Path,
        identity: LogIdentity,
        options: EmbeddedOptions | None = None,
        filesystem: FileSystem | None = None,
        settled_floor: int = 0,
    ) -> Self:
        """Open a log for writing and recover it; a directory that does not exist is an empty log.

        The caller ensures that nothing else writes to the log (`offsets.LogRoot` does).

        Args:
            directory: Directory that only this log uses.
            identity: Identity of the log.
            options: Options; the defaults suit a machine with reliable power.
            filesystem: File operations; those of the operating system by default.
            settled_floor: As for `Log.open`.

        Raises:
            UnsupportedFormatError: A segment is of another format version.
            LogFailedError: A file operation failed.
        """
        options = options or EmbeddedOptions()
        log, recovery = Log.open(
            directory, identity, options.log_options(), filesystem, settled_floor
        )
        writer = cls(log, recovery, options)
        if options.sync_interval_seconds:
            writer._periodic = Periodic(
                lambda: sync_all([writer]), options.sync_interval_seconds, "log-sync"
            )
        return writer

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._batch.next_offset

    @property
    def recovery_point(self) -> int:
        """Offset below which everything is on the disk, exclusive."""
        return self.log.recovery_point

    @property
    def needs_sync(self) -> bool:
        """Whether a sync would write something to the disk."""
        is_synced = self.log.recovery_point == self._batch.next_offset
        return not (is_synced or self._is_closing or self.log.failed)

    def append(self, payload: bytes, key: bytes = b"", headers: Headers | None = None) -> int:
        """Append one record and return its offset.

        If another exception than these is raised, like KeyboardInterrupt, the record is in the log
        once or not at all; all earlier records are, and the writer stays usable.

        Args:
            payload: Payload, at most 128 MiB with key and headers; copied.
            key: Routing key, at most 255 bytes.
            headers: Headers table, or None; encoded again in each call.

        Raises:
            ValueError: The key is too long, or the headers cannot be encoded.
            RecordTooLargeError: The record is longer than 128 MiB.
            LogFailedError: A write or sync failed, now or before. The log accepts no appends until
                it is opened again; unsynced records may be on the disk or not.
            LogClosedError: The writer is closed.
        """
        message = self._prefix(key, headers) + payload
        size = len(message)
        if size > MESSAGE_BYTES_MAX:
            raise RecordTooLargeError(size, MESSAGE_BYTES_MAX)
        with self._batch_lock:
            self._check()
            batch = self._batch
            offset = batch.add(message, self._clock.now_ns())
            self._appended_bytes += size
        if batch.size_bytes >= self._batch_bytes or self._options.sync_each_append:
            self._work(offset + 1)
        return offset

    def append_batch(
        self, payloads: Sequence[bytes], key: bytes = b"", headers: Headers | None = None
    ) -> AppendedRange:
        """Append records that share a key and headers: the fastest way.

        Args:
            payloads: At least one payload; copied.
            key: As for `append`.
            headers: As for `append`.

        Returns:
            Their offsets, which are consecutive and in the order of the payloads.

        Raises:
            ValueError: There is no payload; otherwise as for `append`. Nothing was appended.
            RecordTooLargeError: As for `append`. Nothing was appended.
            LogFailedError: As `append`.
            LogClosedError: As `append`.
        """
        prefix = self._prefix(key, headers)
        if not isinstance(payloads, list):
            payloads = list(payloads)
        size = _checked_size(payloads, len(prefix))
        with self._batch_lock:
            self._check()
            batch = self._batch
            base = batch.next_offset
            batch.extend_payloads(payloads, prefix, size, self._clock.now_ns())
            self._appended_bytes += size
        return self._appended(base, len(payloads))

    def append_records(self, records: Sequence[Record]) -> AppendedRange:
        """Append records, each with its own key and headers; otherwise like `append_batch`."""
        prefix = self._prefix
        messages = [prefix(each.key, each.headers) + each.payload for each in records]
        size = _checked_size(messages, 0)
        with self._batch_lock:
            self._check()
            batch = self._batch
            base = batch.next_offset
            batch.extend(messages, size, self._clock.now_ns())
            self._appended_bytes += size
        return self._appended(base, len(messages))

    def flush(self) -> int:
        """Write all records in memory to the kernel; return the end offset.

        Raises:
            LogFailedError: As `append`.
            LogClosedError: As `append`.
        """
        with self._batch_lock:
            self._check()
        self._write(self._batch.next_offset, sync=False)
        return self.log.log_end_offset

    def sync(self) -> int:
        """Write all records to the disk; return the end offset.

        From then on readers see them, and they survive any crash.

        Raises:
            LogFailedError: As `append`.
            LogClosedError: As `append`.
        """
        with self._batch_lock:
            self._check()
        self._write(self._batch.next_offset, sync=True)
        return self.log.recovery_point

    def roll_if_due(self, now_ns: int, floor: int, keep_since_ns: int | None) -> bool:
        """Seal the last segment if retention could remove it then; see `Log.is_roll_due`.

        Raises:
            LogFailedError: As `append`.
        """
        if not self.log.is_roll_due(now_ns, floor, keep_since_ns):
            return False

        def roll_if_still_due() -> None:
            if not self._is_closed and self.log.is_roll_due(now_ns, floor, keep_since_ns):
                self._change_files(self.log.roll)

        self._with_disk(roll_if_still_due)
        return True

    def remove_below(self, offset: int) -> int:
        """Remove the segments that are wholly below an offset; return the bytes freed.

        Appends continue during that time.

        Raises:
            LogFailedError: A file cannot be removed.
        """
        with self._removal_lock:
            return 0 if self._is_closed else self.log.remove_settled(offset)

    def roll(self) -> None:
        """Write all records to the disk, seal the last segment and begin an empty one.

        Raises:
            LogFailedError: As `append`.
            LogClosedError: As `append`.
        """
        with self._batch_lock:
            self._check()

        def write_and_roll() -> None:
            self._write_batch(sync=False)
            if not self._is_closed:
                self._change_files(self.log.roll)

        self._with_disk(write_and_roll)

    def log_statistics(self) -> LogStatistics:
        """Return the statistics of the log, as `amqp-server stats` shows them."""
        with self._disk_lock:
            return log_statistics(self.log, self.log.recovery_point)

    def statistics(self) -> WriterStatistics:
        """Return the counters since the log was opened."""
        return WriterStatistics(
            appended=self._batch.next_offset - self._opened_end,
            appended_bytes=self._appended_bytes,
            flushed_batches=self._flushed_batches,
            syncs=self._syncs,
            batch_bytes=self._batch.size_bytes,
        )

    def close(self) -> None:
        """Refuse appends, write all records to the disk, and close the files.

        A second call does nothing, or completes a first one that an exception has interrupted.

        Raises:
            LogFailedError: The last write or sync failed, or an earlier one.
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
        """Count as closed: the records in memory are the parent's. For the child of a fork."""
        self._is_closing = self._is_closed = True
        # A thread of the parent, missing in the child, may have held the locks.
        self._make_locks()

    def delete(self) -> None:
        """Remove the log with all its files; the writer is not used afterwards.

        Raises:
            LogFailedError: Something could not be removed.
        """
        if self._periodic is not None:
            self._periodic.close()
        with self._removal_lock, self._disk_lock, self._batch_lock:
            self._is_closing = self._is_closed = True
            self.log.delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _make_locks(self) -> None:
        # Order of acquisition: the removal lock, then the disk lock, then the batch lock.
        self._batch_lock = threading.Lock()
        self._disk_lock = threading.Lock()
        self._removal_lock = threading.Lock()

    def _prefix(self, key: bytes, headers: Headers | None) -> bytes:
        if headers is not None:
            return message_prefix(key, headers)
        known, prefix = self._last_prefix
        if key != known:
            prefix = message_prefix(key)
            self._last_prefix = (key, prefix)
        return prefix

    def _appended(self, base: int, count: int) -> AppendedRange:
        if self._batch.size_bytes >= self._batch_bytes or self._options.sync_each_append:
            self._work(base + count)
        return AppendedRange(base, base + count - 1)

    def _check(self) -> None:
        if self._is_closing:
            raise LogClosedError(self.log.directory)
        if self.log.failed is not None and not self._may_recover:
            raise self.log.failed

    def _work(self, end: int) -> None:
        options = self._options
        unsynced_bytes = self._appended_bytes - self._synced_bytes
        is_due = bool(options.sync_bytes) and unsynced_bytes >= options.sync_bytes
        self._write(end, sync=options.sync_each_append or is_due)

    def _write(self, end: int, *, sync: bool) -> None:
        """Write or sync all records so far, unless another thread did so for those below `end`."""

        def write() -> None:
            if (self.log.recovery_point if sync else self.log.log_end_offset) < end:
                self._write_batch(sync)

        self._with_disk(write)

    def _with_disk(self, work: Callable[[], None]) -> None:
        """Call a function with the disk lock held, once an interrupted change has been undone."""
        while True:
            with self._disk_lock:
                if not self._is_changing:
                    work()
                    return
            self._recover()

    def _write_batch(self, sync: bool) -> None:
        with self._batch_lock:
            if self.log.failed is not None:
                raise self.log.failed
            chunks, end = self._batch.chunks()
            appended_bytes = self._appended_bytes
        if self._is_closed or not (chunks or sync):
            return

        def write() -> None:
            self.log.append(Append(chunks, end, sync=sync))
            with self._batch_lock:
                self._batch.remove_written(end)

        self._change_files(write)
        self._flushed_batches += bool(chunks)
        if sync:
            self._synced_bytes = appended_bytes
            self._syncs += 1

    def _change_files(self, change: Callable[[], None]) -> None:
        """Change the files of the log; an interruption leaves a mark."""
        outer = sys.exception()
        try:
            self._may_recover = False
            self._is_changing = True
            change()
            self._is_changing = False
        except BaseException as error:
            cause = _disk_error(error, outer)
            if cause is None:
                self._may_recover = True
            else:
                self.log.fail(self.log.directory, cause)
            raise

    def _recover(self) -> None:
        """Undo an interrupted change of the files."""
        with self._removal_lock, self._disk_lock, self._batch_lock:
            if not self._is_changing:
                return
            directory = self.log.directory
            failure = self.log.fail(directory, InterruptedError("an exception cut a write short"))
            if not self._may_recover:
                raise failure

            def reopen() -> None:
                self.log.reopen()
                self._batch.remove_written(self.log.log_end_offset)

            self._change_files(reopen)

    def _close(self) -> None:
        if self._is_closed:
            return
        with self._batch_lock:
            self._is_closing = True
        if self._periodic is not None:
            self._periodic.close()
        try:
            self._write(self._batch.next_offset, sync=True)
        except LogError:
            self._close_files()
            raise
        self._close_files()

    def _close_files(self) -> None:
        with self._removal_lock, self._disk_lock, self._batch_lock:
            if not self._is_closed:
                self.log.close()
                self._is_closed = True


def _disk_error(error: BaseException, outer: BaseException | None) -> Exception | None:
    """Return the disk error that an exception is, or that was being handled when it was raised.

    Args:
        error: Exception that was raised.
        outer: Exception that was being handled before.
    """
    cause: BaseException | None = error
    while cause is not None and cause is not outer:
        # A missing or existing file is often an expected result, not an error of the disk.
        is_answer = isinstance(cause, FileNotFoundError | FileExistsError) and cause is not error
        if isinstance(cause, OSError | LogError) and not is_answer:
            return cause
        cause = cause.__context__
    return None


def _checked_size(octets: list[bytes], more_bytes: int) -> int:
    """Return the size of messages, in bytes.

    Args:
        octets: Payloads or whole messages.
        more_bytes: Number of further bytes in each message.

    Raises:
        ValueError: There is no message.
        RecordTooLargeError: A message is too long.
    """
    if not octets:
        raise ValueError("a batch needs at least one record")
    size = sum(map(len, octets)) + more_bytes * len(octets)
    if size > MESSAGE_BYTES_MAX:
        longest = max(map(len, octets)) + more_bytes
        if longest > MESSAGE_BYTES_MAX:
            raise RecordTooLargeError(longest, MESSAGE_BYTES_MAX)
    return size
