"""Reading logs as a group: each record once, acks in any order, places kept over restarts.

A consumer has the logs whose names match its pattern, also those that appear later, and holds
each for its group alone. What is acked is in memory until `sync`, which `poll` does by itself
every so often: after a crash the acks since then are forgotten, and those records come again. A
checkpoint may lag, never lead: what is not durable in the log is not seen, so it is not acked.

An exception of a signal handler, as Ctrl-C, may be raised anywhere. A batch that a poll did not
return comes again with the next one. Of a log whose acks such an exception has cut short what the
group is done with is read from the disk again, as after a crash.
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
SHOWN_INTERVAL_SECONDS: Final = 10.0
"""How often a consumer shows that it is there, for `group_expires_after_seconds`."""


class Consumer:
    """One consumer of a group. Thread-safe: other threads may ack what one has polled.

    Args:
        root: The data directory; a `LogRoot` has made it.
        group: 1 to 255 bytes of UTF-8, no control characters.
        pattern: Which logs: `*`, `?` and `[...]` as in a shell.
        worker: `(number, total)`: of all logs that match it has its share, the same in every
            process: by the number at the end of the log's name, else by a hash of the name.
        start: Where the group begins in a log in which it has no place yet.
        sync_interval_seconds: How often `poll` writes down what was acked; 0: only `sync` does.
        discovery_interval_seconds: How often `poll` looks for logs that appeared, and for what
            retention has removed.
        vhost: The virtual host of the logs.
        filesystem: The operating system's by default.

    Attributes:
        group: Its name.
        dropped_since_last_poll: What retention took away, unread by the group, between the last
            two polls.

    Raises:
        GroupLockedError: Another consumer of the group has one of the logs; `pid` says which.
        InvalidGroupNameError: The name of the group is not such.
        StorageLockedError: A server runs on the directory: it has groups of its own.
        StorageFormatError: It is of another format version, or no data directory.
        StorageUnavailableError: It is not there, or cannot be used.
        CheckpointFailedError: The places of groups cannot be read.
        DocumentWriteError: The disk refused to note what the group reads.
        LogError: A log cannot be read.
        ValueError: The worker is not one of its total.
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
        self._is_closing = self._is_closed = False
        self._lock = threading.RLock()
        self._logs: dict[str, ConsumedLog] = {}
        self._unsure: set[str] = set()
        # Where a log was read last while nobody has what came of it.
        self._unreturned: tuple[ConsumedLog, int] | None = None
        self._offered: tuple[ConsumedLog, int] | None = None
        self._turn = 0
        self._delivered = self._acked = 0
        self._synced_at: float | None = None
        self._sync_due_at = time.monotonic() + sync_interval_seconds
        self._shown_at = time.monotonic()
        self._claim = Claim.as_member(self._root)
        self._filesystem = filesystem or FileSystem()
        self._catalog = LogCatalog(self._root, vhost, self._filesystem)
        self._checkpoints = SharedCheckpoints(self._root, self._filesystem)
        try:
            # Before it has a place anywhere: from now on retention knows of the group.
            self._known = KnownGroups(self._root, vhost, self._filesystem).add(group, pattern)
            self._discover(start)
        except BaseException:
            self._release()
            raise
        abandon_in_children(self)

    @property
    def logs(self) -> list[str]:
        """The names of the logs that it has, in order."""
        return sorted(self._logs)

    def poll(
        self,
        max_records: int = BATCH_RECORDS,
        max_bytes: int = BATCH_BYTES,
        timeout_seconds: float = 0.0,
    ) -> ConsumedBatch | None:
        """Return the next records of one log; the logs take turns.

        Args:
            max_records: >= 1.
            max_bytes: Of messages, >= 1; one record is always returned if there is one.
            timeout_seconds: How long to wait for something to become durable.

        Returns:
            None when there was nothing until the timeout, or `stop` was called.

        Raises:
            LogClosedError: The consumer is closed.
            ValueError: `max_records` or `max_bytes` is below 1.
            GroupLockedError: A log has appeared, and another consumer of the group has it.
            LogError: A log cannot be read.
            CheckpointFailedError: It was time for a sync, which failed: it is tried again.
        """
        batch = self._poll(max_records, max_bytes, timeout_seconds)
        self._unreturned = None
        return batch

    def offer(self, max_records: int) -> ConsumedBatch | None:
        """Return what `poll` does; it comes again with the next call, unless `accept` is called.

        For `process`: whatever ends a run, and wherever, no batch is left out in the next one.

        Raises:
            LogClosedError: As `poll`, and so on.
        """
        self.take_back_offer()
        batch = self._poll(max_records, BATCH_BYTES, 0.0)
        self._offered = self._unreturned
        self._unreturned = None
        return batch

    def accept(self) -> None:
        """Go on behind what `offer` has returned."""
        self._offered = None

    def take_back_offer(self) -> None:
        """Read what `offer` has returned once more, unless it was accepted."""
        with self._lock:
            if self._offered is not None:
                log, position = self._offered
                log.go_back(position)
                self._offered = None

    def ack(self, log: str, offset: int) -> int:
        """Say that one record is done, in any order; return 1, or 0 if it was already.

        Raises:
            LogNotFoundError: It is no log of this consumer.
            GroupOffsetOutOfRangeError: The log has no such offset.
        """
        return self.ack_range(log, offset, offset + 1)

    def ack_range(self, log: str, start: int, end: int) -> int:
        """Say that `[start, end)` is done, in any order; return how many were not yet.

        Raises:
            LogNotFoundError: It is no log of this consumer.
            GroupOffsetOutOfRangeError: The log has no such offsets.
        """
        with self._lock:
            newly = self._log(log).settle(start, end)
            self._acked += newly
            return newly

    def ack_batch(self, batch: ConsumedBatch) -> int:
        """Say that all records of a batch are done; return how many were not yet.

        Raises:
            LogNotFoundError: It is no log of this consumer.
        """
        return self.ack_range(batch.log, batch.start, batch.end)

    def requeue(self, batch: ConsumedBatch) -> None:
        """Read a batch, and what follows it, once more: what of it is not acked comes again.

        Of a log that is gone nothing does.
        """
        with self._lock:
            if batch.log in self._logs:
                self._logs[batch.log].go_back(batch.offsets[0])

    def commit(self, log: str, offset: int) -> int:
        """Say that all below `offset` is done; return how many were not yet.

        The same again is fine. To go back on purpose is `seek`.

        Raises:
            LogNotFoundError: It is no log of this consumer.
            RegressingCommitError: It is below an earlier commit; nothing was changed.
            GroupOffsetOutOfRangeError: The log has no such offset.
        """
        with self._lock:
            newly = self._log(log).commit(offset)
            self._acked += newly
            return newly

    def committed(self, log: str) -> int | None:
        """Return the offset below which all is done; None if nothing was ever acked.

        Raises:
            LogNotFoundError: It is no log of this consumer.
        """
        with self._lock:
            return self._log(log).group.committed

    def seek(self, position: Position, log: str | None = None) -> dict[str, int]:
        """Go somewhere else, back or on, in one log or in all; return where that is.

        What was acked from there on is forgotten, what lies before it counts as done.

        Raises:
            LogNotFoundError: It is no log of this consumer.
            LogError: A log cannot be read.
        """
        check_position(position)
        with self._lock:
            self._check()
            chosen = list(self._logs.values()) if log is None else [self._log(log)]
            return {each.name: each.seek(position) for each in chosen}

    def reset(self, log: str | None = None) -> dict[str, int]:
        """Begin anew, in one log or in all, where the group would without a place; return where.

        That is `start`. All acks are forgotten, as a `seek` there does.

        Raises:
            LogNotFoundError: It is no log of this consumer.
            LogError: A log cannot be read.
        """
        return self.seek(self._start, log)

    def lag(self) -> Lag:
        """Look again at every log, and return how far the group is behind in it.

        Raises:
            LogError: A log cannot be read.
        """
        with self._lock:
            self._check()
            for each in self._logs.values():
                each.look(is_thorough=True)
            logs = {name: self._logs[name].lag for name in self.logs}
        return Lag(sum(logs.values()), logs)

    def sync(self) -> None:
        """Put what was acked, sought and dropped on the disk.

        Raises:
            CheckpointFailedError: The disk refused; nothing is lost in memory, try again.
            GroupLockedError: Somebody has deleted the lock of a log, and another process has it.
            StorageLockedError: Another process is in the middle of a round, and stays there.
            LogClosedError: The consumer is closed.
        """
        with self._lock:
            self._check()
            self._write()

    def process(self, handler: Handler, options: ProcessOptions | None = None) -> ProcessStatistics:
        """Hand batches to a function until `stop`; see `ProcessOptions`.

        What was acked is on the disk when this returns.

        Args:
            handler: Called with each batch, in this thread; returning means done, raising an
                Exception means failed.
            options: Batch size, waiting, retries, what becomes of failures.

        Raises:
            GroupLockedError: As `poll`, and so on. What a handler raises is in what is returned.
        """
        return Process(self, handler, options or ProcessOptions()).run()

    def stop(self) -> None:
        """End a `poll` that waits, now and from now on; from any thread or signal handler."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait, but not longer than until `stop`; return whether that was called."""
        return self._stopping.wait(seconds)

    def statistics(self) -> ConsumerStatistics:
        """Return what was done since it was opened, and where it is."""
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
        """Sync, and give the logs up to other consumers.

        A second call does nothing, or goes on where an exception has ended the first.

        Raises:
            CheckpointFailedError: The disk refused: acks since the last sync are forgotten.
        """
        try:
            self._close()
        except Exception:
            self._release()
            raise
        except BaseException:
            # A signal handler's: what it has cut short is done before its exception goes on.
            self._close()
            raise

    def abandon(self) -> None:
        """Count as closed, and leave the logs to the parent. For the child of a fork."""
        # A thread that the child does not have may hold it.
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
        """Return the next batch; until `_unreturned` is reset it comes again with the next call."""
        if max_records < 1 or max_bytes < 1:
            raise ValueError(f"max_records {max_records} or max_bytes {max_bytes} is not positive")
        deadline = time.monotonic() + timeout_seconds
        is_first = True
        while True:
            with self._lock:
                self._check()
                self._take_back_unreturned()
                if is_first:
                    self._take_dropped()
                    is_first = False
                now = time.monotonic()
                self._do_what_is_due(now)
                batch = self._next(max_records, max_bytes)
                self._take_dropped(add=True)
            if batch is not None or now >= deadline or self._stopping.is_set():
                return batch
            self._stopping.wait(min(POLL_INTERVAL_SECONDS, deadline - now))

    def _take_back_unreturned(self) -> None:
        if self._unreturned is not None:
            log, position = self._unreturned
            log.go_back(position)
            self._unreturned = None

    def _restore(self) -> None:
        """Take what the group is done with from the disk where a change was cut short."""
        known = self._checkpoints.load()
        for name in list(self._unsure):
            log = self._logs.get(name)
            if log is not None:
                state = known.get((log.place.identity.incarnation, self.group))
                self._logs[name] = log.restored(state)
            self._unsure.discard(name)

    def _write(self) -> None:
        """Put what has changed on the disk."""
        changed = [each for each in self._logs.values() if each.group.changed]
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
                log.look()
                batch = log.read(max_records, max_bytes)
            if batch is not None:
                self._turn = (self._turn + step + 1) % len(logs)
                self._delivered += len(batch)
                return batch
        return None

    def _take_dropped(self, *, add: bool = False) -> None:
        dropped = sum(each.group.take_dropped() for each in self._logs.values())
        self.dropped_since_last_poll = dropped + (self.dropped_since_last_poll if add else 0)

    def _do_what_is_due(self, now: float) -> None:
        if now >= self._discovery_due_at:
            # All of a log that appears now came after this consumer.
            self._discover(FIRST_RECORD)
            for each in self._logs.values():
                each.look(is_thorough=True)
            self._show_itself(now)
        if self._sync_interval_seconds and now >= self._sync_due_at:
            self.sync()

    def _show_itself(self, now: float) -> None:
        """Let retention see that the group has a consumer: it may be killed at any time."""
        if now >= self._shown_at + SHOWN_INTERVAL_SECONDS:
            for each in self._logs.values():
                each.claim.touch()
            self._shown_at = now

    def _discover(self, start: Position) -> None:
        found = self._catalog.find(self._pattern)
        mine = {name: found[name] for name in found if is_of_worker(name, self._worker)}
        for name in [name for name in self._logs if self._logs[name].place != mine.get(name)]:
            # Deleted, and perhaps made anew: its place means nothing any more.
            self._logs.pop(name).forget()
        fresh = [place for name, place in mine.items() if name not in self._logs]
        if fresh:
            self._take_up(fresh, start)
            # From now on retention knows what the group has not read.
            self.sync()
        self._discovery_due_at = time.monotonic() + self._discovery_interval_seconds

    def _take_up(self, places: list[LogPlace], start: Position) -> None:
        claims: list[tuple[LogPlace, GroupClaim]] = []
        try:
            for place in places:
                incarnation = place.identity.incarnation
                claim = Claim.as_consumer(self._root, self.group, place.name, incarnation)
                claims.append((place, claim))
            # Behind the claims: from now on nobody else moves these groups.
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
        """Return where the group begins in a log in which it has no place.

        If the group would have read the log before, the log appeared while it had no consumer.
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
        if self._is_closed:
            return
        self._is_closing = True
        for each in list(self._logs.values()):
            each.close()
        self._logs.clear()
        self._checkpoints.close()
        self._claim.release()
        self._is_closed = True
