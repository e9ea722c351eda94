"""Appending to one log from a program of its own: batches in memory, syncs by policy.

    append      ->  batch in memory    lost with the process
    flush       ->  kernel             lost with the machine
    sync        ->  disk               kept, and seen by readers

Offsets and times are assigned by `append` at once. An offset below the end of the last sync is
never given to another record. One above it may be, after a crash: nobody but the process that
died has seen it, for readers see only what is on the disk.

Any threads may append at the same time. One of them writes while others fill the next batch; a
sync that comes while another is under way waits for it and finds its own work done, so that many
threads that sync each append share the syncs.

An exception may be raised anywhere in the main thread: a signal handler raises it, as Ctrl-C does.
A batch forgets its records only when they are written. A write that does not come back leaves a
mark, and whoever comes next takes back what it left in the files, and writes the batch again.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

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
"""As long as a server's longest message by default: a server may read this log one day."""


class LogWriter:
    """The one writer of a log. Made by `LogWriter.open`. Thread-safe.

    Syncs by the clock only if `open` made it; whoever makes one sees to that.

    Args:
        log: Just opened; belongs to the writer from now on.
        recovery: What was found.
        options: Of the log too.

    Attributes:
        log: What is written to; for reading and for retention, never to append to.
        recovery: What was found when it was opened.
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
        # A change of the files is under way, or did not come back; then: whether the log may be
        # recovered, because no error of the disk was the reason.
        self._is_changing = self._may_recover = False
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
        """Open a log for writing and recover it; a directory that is missing is an empty log.

        The caller has seen to it that nobody else writes to it (`offsets.LogRoot` does).

        Args:
            directory: Of this log alone.
            identity: Whose log it is.
            options: Defaults are for a machine that does not lose its power.
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
        """The offset that the next record gets."""
        return self._batch.next_offset

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is on the disk, exclusive."""
        return self.log.recovery_point

    @property
    def needs_sync(self) -> bool:
        """Whether a sync would put something on the disk."""
        is_synced = self.log.recovery_point == self._batch.next_offset
        return not (is_synced or self._is_closing or self.log.failed)

    def append(self, payload: bytes, key: bytes = b"", headers: Headers | None = None) -> int:
        """Append one record and return its offset.

        When it raises anything but what is named here, as KeyboardInterrupt, the record is in the
        log, once, or it is not; all records before it are, and the writer may be used on.

        Args:
            payload: At most 128 MiB with key and headers; copied.
            key: At most 255 bytes.
            headers: None for none; they are encoded anew for each call.

        Raises:
            ValueError: The key is too long, or the headers cannot be written.
            RecordTooLargeError: The record is longer than 128 MiB.
            LogFailedError: A write or sync failed, now or before. Final: the log takes no more
                until it is opened again, and what was not synced may be on the disk or not.
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
        """Append records with one key and one set of headers: the fastest way.

        Args:
            payloads: At least one; copied.
            key: As for `append`.
            headers: As for `append`.

        Returns:
            Their offsets, in the order of the payloads, with nothing between them.

        Raises:
            ValueError: There is no payload; otherwise as `append`, and nothing was appended.
            RecordTooLargeError: As `append`; nothing was appended.
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
        """Append records, each with its own key and headers; otherwise as `append_batch`."""
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
        """Hand all that is in memory to the kernel; return the offset behind it.

        Raises:
            LogFailedError: As `append`.
            LogClosedError: As `append`.
        """
        with self._batch_lock:
            self._check()
        self._write(self._batch.next_offset, sync=False)
        return self.log.log_end_offset

    def sync(self) -> int:
        """Put all that was appended on the disk; return the offset behind it.

        From then on readers see it, and no crash takes it.

        Raises:
            LogFailedError: As `append`.
            LogClosedError: As `append`.
        """
        with self._batch_lock:
            self._check()
        self._write(self._batch.next_offset, sync=True)
        return self.log.recovery_point

    def roll_if_due(self, now_ns: int, floor: int, keep_since_ns: int | None) -> bool:
        """Seal the last segment if retention could take it then; see `Log.is_roll_due`.

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
        """Remove the segments that lie wholly below an offset; return the bytes freed.

        Appends go on meanwhile.

        Raises:
            LogFailedError: A file cannot be removed.
        """
        with self._removal_lock:
            return 0 if self._is_closed else self.log.remove_settled(offset)

    def roll(self) -> None:
        """Put all on the disk, seal the last segment and begin an empty one.

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
        """Return what the log holds: the numbers that `amqp-server stats` shows of it."""
        with self._disk_lock:
            return log_statistics(self.log, self.log.recovery_point)

    def statistics(self) -> WriterStatistics:
        """Return what was done since the log was opened."""
        return WriterStatistics(
            appended=self._batch.next_offset - self._opened_end,
            appended_bytes=self._appended_bytes,
            flushed_batches=self._flushed_batches,
            syncs=self._syncs,
            batch_bytes=self._batch.size_bytes,
        )

    def close(self) -> None:
        """Refuse appends, put all that was appended on the disk, and close the files.

        A second call does nothing, or goes on where an exception has ended the first.

        Raises:
            LogFailedError: The last write or sync failed, or one before it.
        """
        try:
            self._close()
        except LogError:
            raise
        except BaseException:
            # A signal handler's: what it has cut short is done before its exception goes on.
            self._close()
            raise

    def abandon(self) -> None:
        """Count as closed; what is in memory is the parent's. For the child of a fork."""
        self._is_closing = self._is_closed = True
        # A thread that the child does not have may hold them.
        self._make_locks()

    def delete(self) -> None:
        """Remove the log with all that is in it; the writer is not used afterwards.

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
        # Whoever needs more than one takes the removal's first, then the disk's.
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
        """Write, or sync, all records so far, unless somebody did so for those below `end`."""

        def write() -> None:
            if (self.log.recovery_point if sync else self.log.log_end_offset) < end:
                self._write_batch(sync)

        self._with_disk(write)

    def _with_disk(self, work: Callable[[], None]) -> None:
        """Do something with the disk's lock, in a log whose files are as it says."""
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
        if self._is_closed or not (chunks or (sync and self.log.recovery_point < end)):
            return

        def write() -> None:
            self.log.append(chunks, end, sync)
            with self._batch_lock:
                self._batch.forget(end)

        self._change_files(write)
        self._flushed_batches += bool(chunks)
        if sync:
            self._synced_bytes = appended_bytes
            self._syncs += 1

    def _change_files(self, change: Callable[[], None]) -> None:
        """Change the files of the log, leaving a mark if that is cut short."""
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
        """Take back what a change that was cut short has left in the files."""
        with self._removal_lock, self._disk_lock, self._batch_lock:
            if not self._is_changing:
                return
            directory = self.log.directory
            failure = self.log.fail(directory, InterruptedError("an exception cut a write short"))
            if not self._may_recover:
                raise failure

            def reopen() -> None:
                self.log.reopen()
                self._batch.forget(self.log.log_end_offset)

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
    """Return the error of the disk that an exception is, or that was handled when it was raised.

    Args:
        error: What was raised.
        outer: What was being handled before.
    """
    cause: BaseException | None = error
    while cause is not None and cause is not outer:
        # That a file is not there, or is, was an answer to a question.
        is_answer = isinstance(cause, FileNotFoundError | FileExistsError) and cause is not error
        if isinstance(cause, OSError | LogError) and not is_answer:
            return cause
        cause = cause.__context__
    return None


def _checked_size(octets: list[bytes], more_bytes: int) -> int:
    """Return the size of messages.

    Args:
        octets: What is in them.
        more_bytes: How much longer each of them is.

    Raises:
        ValueError: There is none.
        RecordTooLargeError: One is too long.
    """
    if not octets:
        raise ValueError("a batch needs at least one record")
    size = sum(map(len, octets)) + more_bytes * len(octets)
    if size > MESSAGE_BYTES_MAX:
        longest = max(map(len, octets)) + more_bytes
        if longest > MESSAGE_BYTES_MAX:
            raise RecordTooLargeError(longest, MESSAGE_BYTES_MAX)
    return size
