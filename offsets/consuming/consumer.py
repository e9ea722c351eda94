"""Consumer of logs as a member of a group: each record once, acks in any order, durable positions.

A consumer reads the logs whose names match its pattern, including later ones, and claims each for
its group. Acks are in memory until `sync`, which `poll` calls at an interval. After a crash the
later acks are lost, and those records are delivered again. A checkpoint may be out of date, but
never settles too much: records that are not durable are not delivered, so they cannot be acked.

An exception of a signal handler, as with Ctrl-C, may occur anywhere. A batch that a poll did not
return comes with the next poll. If it interrupts the acks of a log, the group's state in that log
is read from the disk again, as after a crash.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from appendlog import FileSystem, LogClosedError
from appendlog.embedded.forks import abandon_in_children
from offsets.consuming.batch import ConsumedBatch
from offsets.consuming.catalog import DEFAULT_VHOST, LogCatalog, LogPlace
from offsets.consuming.claims import Claim, GroupClaim
from offsets.consuming.consumed_log import ConsumedLog
from offsets.consuming.consumer_statistics import ConsumerStatistics, Lag
from offsets.consuming.known_groups import KnownGroups
from offsets.consuming.position import FIRST_RECORD, Position, check_position
from offsets.consuming.processing import Handler, Process, ProcessOptions, ProcessStatistics
from offsets.consuming.shared_checkpoints import SharedCheckpoints
from offsets.consuming.stop_signal import StopSignal
from offsets.consuming.workers import check_worker, is_of_worker
from offsets.errors import LogNotFoundError
from offsets.group_offsets import check_group_name

BATCH_RECORDS: Final = 1_000
BATCH_BYTES: Final = 4 << 20
POLL_INTERVAL_SECONDS: Final = 0.05
TOUCH_INTERVAL_SECONDS: Final = 10.0
"""Interval at which a consumer shows its activity, for `group_expires_after_seconds`."""


class Consumer:
    """Consumer of a group. Thread-safe: another thread may ack what one has polled.

    Args:
        root: Data directory, which a `LogRoot` has made.
        group: Name of the group, 1 to 255 bytes of UTF-8 without control characters.
        pattern: Shell pattern of the log names, with `*`, `?` and `[...]`.
        worker: `(number, total)` for a share of the matching logs, numbers from 0. The number at
            the end of a log's name selects its worker, otherwise a hash of the name; every process
            computes the same.
        start: Position where the group begins in a log in which it has no position yet.
        sync_interval_seconds: Interval at which `poll` writes acks to the disk; 0: only `sync`
            does.
        discovery_interval_seconds: Interval at which `poll` looks for new logs, and for records
            that retention has removed.
        vhost: Virtual host of the logs.
        filesystem: File operations; those of the operating system by default.

    Attributes:
        group: Name of the group.
        dropped_since_last_poll: Number of unread records that retention removed between the last
            two polls.

    Raises:
        GroupLockedError: Another consumer of the group has one of the logs; `pid` is its process.
        InvalidGroupNameError: The name of the group is not valid.
        StorageLockedError: A server uses the directory: it has groups of its own.
        StorageFormatError: The directory is of another format version, or not a data directory.
        StorageUnavailableError: The directory does not exist, or cannot be used.
        CheckpointFailedError: The checkpoints of groups cannot be read.
        DocumentWriteError: The group's pattern cannot be written.
        LogError: A log cannot be read.
        ValueError: The worker number or total is out of range.
    """

    def __init__(
        self,
        root: Path | str,
        group: str,
        pattern: str = "*",
        *,
        worker: tuple[int, int] = (0, 1),
        start: Position = Position.EARLIEST,
        sync_interval_seconds: float = 1.0,
        discovery_interval_seconds: float = 1.0,
        vhost: str = DEFAULT_VHOST,
        filesystem: FileSystem | None = None,
    ) -> None:
        check_group_name(group)
        check_worker(worker)
        check_position(start)
        self.group: Final = group
        self.dropped_since_last_poll = 0
        self._root = Path(root)
        self._pattern = pattern
        self._worker = worker
        self._start = start
        self._sync_interval_seconds = sync_interval_seconds
        self._discovery_interval_seconds = discovery_interval_seconds
        self._stopping = StopSignal()
        self._is_closing = False
        self._lock = threading.RLock()
        self._logs: dict[str, ConsumedLog] = {}
        self._unsure: set[str] = set()
        # Log and position of a batch that no caller has received yet.
        self._unreturned: tuple[ConsumedLog, int] | None = None
        self._offered: tuple[ConsumedLog, int] | None = None
        self._turn = 0
        self._delivered = self._acked = 0
        self._synced_at: float | None = None
        self._sync_due_at = time.monotonic() + sync_interval_seconds
        self._touched_at = time.monotonic()
        self._claim = Claim.as_member(self._root)
        self._filesystem = filesystem or FileSystem()
        self._catalog = LogCatalog(self._root, vhost, self._filesystem)
        self._checkpoints = SharedCheckpoints(self._root, self._filesystem)
        try:
            # Before the group has a position anywhere: from now on retention knows of it.
            self._known = KnownGroups(self._root, vhost, self._filesystem).add(group, pattern)
            self._discover(start)
        except BaseException:
            self._release()
            raise
        abandon_in_children(self)

    @property
    def logs(self) -> list[str]:
        """Names of the consumer's logs, in order."""
        return sorted(self._logs)

    def poll(
        self,
        max_records: int = BATCH_RECORDS,
        max_bytes: int = BATCH_BYTES,
        timeout_seconds: float = 0.0,
    ) -> ConsumedBatch | None:
        """Return the next records of one log; the logs take turns.

        Args:
            max_records: Limit of records, >= 1.
            max_bytes: Limit of message bytes, >= 1; at least one record is returned if there is
                one.
            timeout_seconds: Longest wait for records to become durable, in seconds.

        Returns:
            None if there were no records until the timeout, or if `stop` was called.

        Raises:
            LogClosedError: The consumer is closed.
            ValueError: `max_records` or `max_bytes` is below 1.
            GroupLockedError: A log has appeared, and another consumer of the group has it.
            LogError: A log cannot be read.
            CheckpointFailedError: A sync that was due has failed; the next poll tries it again.
        """
        batch = self._poll(max_records, max_bytes, timeout_seconds)
        self._unreturned = None
        return batch

    def offer(self, max_records: int) -> ConsumedBatch | None:
        """Return the next batch, like `poll`; without `accept` the next call returns it again.

        For `process`: wherever a run ends, the next one begins with the same batch.

        Raises:
            LogClosedError: As for `poll`, like its other errors.
        """
        self.rewind_offer()
        batch = self._poll(max_records, BATCH_BYTES, 0.0)
        self._offered = self._unreturned
        self._unreturned = None
        return batch

    def accept(self) -> None:
        """Continue after the batch that `offer` has returned."""
        self._offered = None

    def rewind_offer(self) -> None:
        """Read the batch that `offer` has returned again, unless it was accepted."""
        with self._lock:
            if self._offered is not None:
                log, position = self._offered
                log.rewind(position)
                self._offered = None

    def ack(self, log: str, offset: int) -> int:
        """Ack one record, in any order; return 1, or 0 if it was acked before.

        Raises:
            LogNotFoundError: The consumer has no such log.
            GroupOffsetOutOfRangeError: The log has no such offset.
        """
        return self.ack_range(log, offset, offset + 1)

    def ack_range(self, log: str, start: int, end: int) -> int:
        """Ack the offsets `[start, end)`, in any order; return how many were not acked before.

        Raises:
            LogNotFoundError: The consumer has no such log.
            GroupOffsetOutOfRangeError: The log has no such offsets.
        """
        with self._lock:
            newly = self._log(log).settle(start, end)
            self._acked += newly
            return newly

    def ack_batch(self, batch: ConsumedBatch) -> int:
        """Ack all records of a batch; return how many offsets were not acked before.

        Raises:
            LogNotFoundError: The consumer has no such log.
        """
        return self.ack_range(batch.log, batch.start, batch.end)

    def requeue(self, batch: ConsumedBatch) -> None:
        """Read again from a batch on: its records, and later ones, that are not acked return.

        Does nothing if the log is gone.
        """
        with self._lock:
            if batch.log in self._logs:
                self._logs[batch.log].rewind(batch.offsets[0])

    def commit(self, log: str, offset: int) -> int:
        """Ack everything below `offset`; return how many offsets were not acked before.

        The same offset may be committed again. Use `seek` to go back.

        Raises:
            LogNotFoundError: The consumer has no such log.
            RegressingCommitError: The offset is below an earlier commit; nothing was changed.
            GroupOffsetOutOfRangeError: The log has no such offset.
        """
        with self._lock:
            newly = self._log(log).commit(offset)
            self._acked += newly
            return newly

    def committed(self, log: str) -> int | None:
        """Return the offset below which everything is acked; None if nothing was ever acked.

        Raises:
            LogNotFoundError: The consumer has no such log.
        """
        with self._lock:
            return self._log(log).group.committed

    def seek(self, position: Position, log: str | None = None) -> dict[str, int]:
        """Move to a position, in one log or in all; return the offsets by log name.

        Acks from there on are discarded; everything before it counts as acked.

        Raises:
            LogNotFoundError: The consumer has no such log.
            LogError: A log cannot be read.
        """
        check_position(position)
        with self._lock:
            self._check()
            chosen = list(self._logs.values()) if log is None else [self._log(log)]
            return {each.name: each.seek(position) for each in chosen}

    def reset(self, log: str | None = None) -> dict[str, int]:
        """Move to `start`, in one log or in all; return the offsets by log name.

        Acks are discarded, as by `seek`.

        Raises:
            LogNotFoundError: The consumer has no such log.
            LogError: A log cannot be read.
        """
        return self.seek(self._start, log)

    def lag(self) -> Lag:
        """Refresh the view of every log, and return how far the group is behind.

        Raises:
            LogError: A log cannot be read.
        """
        with self._lock:
            self._check()
            for each in self._logs.values():
                each.refresh(is_thorough=True)
            logs = {name: self._logs[name].lag for name in self.logs}
        return Lag(sum(logs.values()), logs)

    def sync(self) -> None:
        """Write acks, seeks and dropped counts to the disk.

        Raises:
            CheckpointFailedError: The write failed; the state stays in memory, so call again.
            GroupLockedError: The lock file of a log was deleted, and another process has claimed
                it.
            StorageLockedError: Another process blocks the checkpoints: its round does not end.
            LogClosedError: The consumer is closed.
        """
        with self._lock:
            self._check()
            self._write()

    def process(self, handler: Handler, options: ProcessOptions | None = None) -> ProcessStatistics:
        """Pass batches to a function until `stop`; see `ProcessOptions`.

        All acks are on the disk when this returns.

        Args:
            handler: Called with each batch, in this thread. A return means success, an Exception
                means failure.
            options: Batch size, intervals, retries, handling of failures.

        Raises:
            GroupLockedError: As for `poll`, like its other errors. The result holds a handler's
                error.
        """
        return Process(self, handler, options or ProcessOptions()).run()

    def stop(self) -> None:
        """End present and later waits of `poll`; from any thread or signal handler."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait for a time or until `stop`; return whether `stop` was called."""
        return self._stopping.wait(seconds)

    def statistics(self) -> ConsumerStatistics:
        """Return the counters since the consumer was opened, and its lag."""
        logs = list(self._logs.values())
        age = None if self._synced_at is None else time.monotonic() - self._synced_at
        return ConsumerStatistics(
            logs=len(logs),
            delivered=self._delivered,
            acked=self._acked,
            dropped_total=sum(each.group.dropped_total for each in logs),
            lost_records=sum(each.lost_records for each in logs),
            lag=sum(each.lag for each in logs),
            checkpoint_age_seconds=age,
        )

    def close(self) -> None:
        """Sync, and release the logs to other consumers.

        A second call does nothing, or completes a first one that an exception has interrupted.

        Raises:
            CheckpointFailedError: The write failed: acks since the last sync are lost.
        """
        try:
            self._close()
        except Exception:
            self._release()
            raise
        except BaseException:
            # From a signal handler: finish the interrupted close before its exception continues.
            self._close()
            raise

    def abandon(self) -> None:
        """Count as closed, and leave the logs to the parent. For the child of a fork."""
        # A thread of the parent, missing in the child, may have held the lock.
        self._lock = threading.RLock()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._is_closing:
            raise LogClosedError(self._root)
        if self._unsure:
            self._restore()

    def _log(self, name: str) -> ConsumedLog:
        self._check()
        try:
            return self._logs[name]
        except KeyError:
            raise LogNotFoundError(name, self._root) from None

    def _poll(
        self, max_records: int, max_bytes: int, timeout_seconds: float
    ) -> ConsumedBatch | None:
        """Return the next batch; the next call returns it again unless `_unreturned` is reset."""
        if max_records < 1 or max_bytes < 1:
            raise ValueError(f"max_records {max_records} or max_bytes {max_bytes} is not positive")
        deadline = time.monotonic() + timeout_seconds
        is_first = True
        while True:
            with self._lock:
                self._check()
                self._rewind_unreturned()
                if is_first:
                    self._take_dropped()
                    is_first = False
                now = time.monotonic()
                self._run_due_work(now)
                batch = self._next(max_records, max_bytes)
                self._take_dropped(add=True)
            if batch is not None or now >= deadline or self._stopping.is_set():
                return batch
            self._stopping.wait(min(POLL_INTERVAL_SECONDS, deadline - now))

    def _rewind_unreturned(self) -> None:
        if self._unreturned is not None:
            log, position = self._unreturned
            log.rewind(position)
            self._unreturned = None

    def _restore(self) -> None:
        """Read the group's state from the disk where a change was interrupted."""
        known = self._checkpoints.load()
        for name in list(self._unsure):
            log = self._logs.get(name)
            if log is not None:
                state = known.get((log.place.identity.incarnation, self.group))
                self._logs[name] = log.restored(state)
            self._unsure.discard(name)

    def _write(self) -> None:
        """Write changed states to the disk, except those of deleted logs."""
        logs = self._logs.values()
        changed = [each for each in logs if each.group.changed and not each.is_gone]
        for each in changed:
            each.claim.renew()
        if changed:
            self._checkpoints.write([each.snapshot() for each in changed])
        for each in changed:
            each.group.changed = False
        self._synced_at = time.monotonic()
        self._sync_due_at = self._synced_at + self._sync_interval_seconds

    def _next(self, max_records: int, max_bytes: int) -> ConsumedBatch | None:
        logs = list(self._logs.values())
        for step in range(len(logs)):
            log = logs[(self._turn + step) % len(logs)]
            self._unreturned = (log, log.position)
            batch = log.read(max_records, max_bytes)
            if batch is None:
                log.refresh()
                batch = log.read(max_records, max_bytes)
            if batch is not None:
                self._turn = (self._turn + step + 1) % len(logs)
                self._delivered += len(batch)
                return batch
        return None

    def _take_dropped(self, *, add: bool = False) -> None:
        dropped = sum(each.group.take_dropped() for each in self._logs.values())
        self.dropped_since_last_poll = dropped + (self.dropped_since_last_poll if add else 0)

    def _run_due_work(self, now: float) -> None:
        if now >= self._discovery_due_at:
            # All records of a log that appears now are newer than this consumer: read all of them.
            self._discover(FIRST_RECORD)
            for each in self._logs.values():
                each.refresh(is_thorough=True)
            self._touch_lock_files(now)
        if self._sync_interval_seconds and now >= self._sync_due_at:
            self.sync()

    def _touch_lock_files(self, now: float) -> None:
        """Update the lock files, so that retention sees a consumer even if it is killed later."""
        if now >= self._touched_at + TOUCH_INTERVAL_SECONDS:
            for each in self._logs.values():
                each.claim.touch()
            self._touched_at = now

    def _discover(self, start: Position) -> None:
        found = self._catalog.find(self._pattern)
        mine = {name: found[name] for name in found if is_of_worker(name, self._worker)}
        for name in [name for name in self._logs if self._logs[name].place != mine.get(name)]:
            # Deleted, and perhaps made again: the old position is meaningless.
            self._logs.pop(name).close_removed()
        fresh = [place for name, place in mine.items() if name not in self._logs]
        if fresh:
            self._begin_reading(fresh, start)
            # From now on retention knows what the group has not read.
            self.sync()
        self._discovery_due_at = time.monotonic() + self._discovery_interval_seconds

    def _begin_reading(self, places: list[LogPlace], start: Position) -> None:
        claims: list[tuple[LogPlace, GroupClaim]] = []
        try:
            for place in places:
                incarnation = place.identity.incarnation
                claim = Claim.as_consumer(self._root, self.group, place.name, incarnation)
                claims.append((place, claim))
            # After the claims: from now on no other process changes these groups.
            known = self._checkpoints.load()
            for place, claim in claims:
                state = known.get((place.identity.incarnation, self.group))
                begin = self._begin_in(place.name, start)
                self._logs[place.name] = ConsumedLog(
                    place, self.group, claim, state, begin, self._filesystem, self._unsure
                )
        except BaseException:
            for place, claim in claims:
                if place.name not in self._logs:
                    claim.release()
            raise

    def _begin_in(self, log: str, start: Position) -> Position:
        """Return the position where the group begins in a log in which it has none.

        If the group's known patterns match the log, the log appeared while the group had no
        consumer.
        """
        is_later = self._known is not None and self._known.reads(log)
        return FIRST_RECORD if is_later and start is Position.EARLIEST else start

    def _close(self) -> None:
        with self._lock:
            if not self._is_closing:
                if self._unsure:
                    self._restore()
                self._write()
            self._release()

    def _release(self) -> None:
        """Release what is held; a second call does nothing, or completes an interrupted one."""
        self._is_closing = True
        for each in list(self._logs.values()):
            each.close()
        self._logs.clear()
        self._checkpoints.close()
        self._claim.release()
