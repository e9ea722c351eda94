"""Where message N of a queue is: in the log, in the ring, or waiting behind a full ring.

The ring holds a window of the newest messages. The journal stage writes to the log what must be
there. Messages that find no slot wait in the overflow buffer. Together the three hold every
unsettled message, and code that counts, reads or settles messages sees no difference:

    log_start_offset        window_start    written_end    cursor        end_offset
         |                       |               |            |               |
         +-----------------------+===============+============+...............+
         |     log only          |  both         |  ring only |  waits for a slot

The journal stage of a durable queue follows the cursor at once. That of a transient queue sleeps
until the ring is full, then writes the oldest unsettled messages until there is room
(`spilling`). The ring overwrites a slot only when its message is settled or in the log. Each log
has at most one request under way, so a slow disk makes requests larger, not more numerous.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Final

from amqp_server.base.config import Durability
from amqp_server.broker.storing.group_commit import GroupCommit
from amqp_server.broker.storing.journal_requests import JournalRequests
from amqp_server.broker.storing.log_windows import LogWindows
from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.storing.overflow_buffer import OverflowBuffer
from amqp_server.broker.storing.spilling import Spilling
from amqp_server.broker.storing.store_owner import NO_OWNER, StoreOwner, StoreProgress
from amqp_server.broker.storing.window_reader import wake
from appendlog import Append, FlushRequest, ReopenRequest
from appendlog.layout.format import OFFSET_MAX

if TYPE_CHECKING:
    from amqp_server.base.time_slice import Stopwatch
    from amqp_server.broker.storing.client_writes import Writes
    from amqp_server.broker.storing.group_commit import WaitingWrites
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.storing.spill_delay import ThrottledQueues
    from amqp_server.broker.storing.storage_settings import StoreSettings
    from amqp_server.broker.storing.window_budget import WindowBudget
    from amqp_server.broker.storing.window_reader import ReadInWorker, WindowReader
    from amqp_server.broker.turn import TaskQueue
    from appendlog import FlushResult, Log, LogFailedError, ReadResult
    from offsets.settlement import Settlement
    from ring import Ring

logger = logging.getLogger("amqp_server.broker.storing.message_store")

RELEASED_MESSAGES_MAX: Final = 4096
"""Most messages that a store releases at a time when the server needs memory."""


class MessageStore:
    """The messages of one queue by offset. The event loop owns it.

    Args:
        log: Open log of the queue; only `flusher` writes it.
        ring: Ring whose cursor is the log's end offset.
        settlement: Settlement of the queue; the store reads it and never changes it.
        is_journaled: Whether every message goes to the log; if not, only messages that spill do.
        settings: Durability and batch bounds of the writes.
        flusher: Writes and syncs the log, off the event loop.
        read_in_worker: Runs a function in a worker and calls back on the event loop.
        owner: Queue that is notified of progress.
        throttled_queues: Queues of the server whose publishers are throttled.
        waiting_writes: Stores of the server whose messages wait to share a write.
        window_budget: Memory limit for the windows of all logs; None limits this log alone.
        stopwatch: Measures how long a write may be encoded.

    Attributes:
        has_progressed: Whether the owner should call `take_progress` in its turn. What the disk
            answers is handed over at once; everything else waits for that turn, because it may
            happen while the owner is in the middle of a change.
        charged_task_queue: Task queue of the client that published last; the writes of the log are
            charged to it. None: no client has published yet.
    """

    def __init__(
        self,
        *,
        log: Log,
        ring: Ring,
        settlement: Settlement,
        is_journaled: bool,
        settings: StoreSettings,
        flusher: Writes,
        read_in_worker: ReadInWorker,
        owner: StoreOwner,
        throttled_queues: ThrottledQueues,
        waiting_writes: WaitingWrites,
        window_budget: WindowBudget | None = None,
        stopwatch: Stopwatch = perf_counter,
    ) -> None:
        assert ring.cursor == log.log_end_offset, "sequence and offset must be one number"
        self.log = log
        self.ring = ring
        self.is_failed = False
        self.has_progressed = False
        self.charged_task_queue: TaskQueue | None = None
        self.awaits_definition = False
        self.failure: LogFailedError | None = None
        self.written_end = log.log_end_offset
        self.recovery_point = log.log_end_offset
        self._settlement = settlement
        self._settings = settings
        self._is_journaled = is_journaled
        self._flusher = flusher
        self._owner: StoreOwner = owner
        self._request: FlushRequest | None = None
        self._overflow = OverflowBuffer()
        self._spilling = Spilling(ring, settlement, owner, throttled_queues)
        self._requests = JournalRequests(log, settings.flush_bytes, stopwatch)
        self.windows = LogWindows(log, read_in_worker, window_budget)
        self._reader = self.windows.of_consumers
        self._flush_waiters: list[asyncio.Future[None]] = []
        self._is_discarded = False
        self._is_sync_due = False
        self._is_spill_due = False
        # End of what the queue had when it had its last turn; only kept for a transient queue.
        self._seen_end = log.log_end_offset
        self._reopening: ReopenRequest | None = None
        self._persistent_end = 0
        self._group = GroupCommit(settings)
        self._waiting_writes = waiting_writes
        self._lost: list[tuple[int, int]] = []

    @property
    def cursor(self) -> int:
        """End of the messages that have or had a slot (exclusive); those above it wait."""
        return self.ring.cursor

    @property
    def end_offset(self) -> int:
        """The offset that the next message will get."""
        return self.ring.cursor + self._overflow.count

    @property
    def is_stalled(self) -> bool:
        """Whether messages wait for room; the server should not read their publishers then."""
        return self._overflow.count > 0 and not self.is_failed

    @property
    def throttles_publishers(self) -> bool:
        """Whether publishers should not be read: there is no room, or a spill is delayed."""
        # Asked for each publish: without the calls of `is_stalled` and `is_delayed`.
        is_stalled = self._overflow.count > 0 and not self.is_failed
        return is_stalled or self._spilling.spill_delay.is_throttling

    @property
    def readable_end(self) -> int:
        """End of the offsets that readers may see (I9, exclusive)."""
        return self.recovery_point if self._is_journaled else self.end_offset

    @property
    def flushing_bytes(self) -> int:
        """Bytes of the write request that is under way; 0 if none is."""
        return 0 if self._request is None else sum(map(len, self._request.chunks))

    @property
    def leaving_bytes(self) -> int:
        """Bytes that soon leave the ring, because they are being written, or are to be.

        Of a write that has not begun it is an estimate: all that the ring holds.
        """
        return self.ring.held_bytes if self._is_spill_due else self.flushing_bytes

    @property
    def is_flushing(self) -> bool:
        """Whether the flusher has a request of this store."""
        return self._request is not None

    @property
    def awaits_turn(self) -> bool:
        """Whether the owner's next turn has something to write or to take over."""
        return (
            self.written_end != self.ring.cursor
            or self.has_progressed
            or self._is_sync_due
            or self.is_failed
            or not self._is_journaled
            or self._overflow.count > 0
        )

    @property
    def confirmed_end(self) -> int:
        """All persistent messages below this offset may be confirmed (invariant I3)."""
        if self._is_discarded:
            # The deletion answers the publishers: none waits for the disk or for room any more.
            return OFFSET_MAX
        match self._settings.durability:
            case Durability.FSYNC:
                return self.recovery_point
            case Durability.WRITE:
                return self.written_end
            case Durability.NONE:
                return self.end_offset

    @property
    def gating_sequence(self) -> int:
        """Lowest sequence that the ring must keep: the first neither settled nor in the log."""
        if self._is_journaled:
            return self.written_end
        return max(self.written_end, self._settlement.ack_floor)

    def append(self, messages: list[bytes], *, persistent: bool) -> int:
        """Append messages; return the offset after the last one.

        Consumers can read and settle them at once, even while they wait for a slot.
        """
        if not self._overflow.count:
            # As `gating_sequence`, without the call where each message is one.
            gating = self.written_end if self._is_journaled else self.gating_sequence
            claimed = self.ring.try_claim(messages, gating)
            if claimed == len(messages):
                self.ring.publish(messages)
            else:
                self.ring.publish(messages[:claimed])
                self._overflow.add(messages, claimed)
        else:
            self._overflow.add(messages)
        if self._is_journaled:
            self._waiting_writes.arrival_count += 1
        end = self.ring.cursor + self._overflow.count
        if persistent:
            self._persistent_end = end
        return end

    def mark_transaction(self, start: int, end: int, transaction_id: bytes) -> None:
        """Record in the log that `[start, end)`, appended just now, belongs to a transaction."""
        self._requests.mark_transaction(start, end, transaction_id)

    def read(self, start: int, end: int, reader: WindowReader | None = None) -> list[bytes]:
        """Return the result of `read_run` as one object for each message."""
        return messages_of(self.read_run(start, end, reader))

    def read_run(self, start: int, end: int, reader: WindowReader | None = None) -> Messages:
        """Return messages from `start` on that are in memory, at most up to `end`.

        `[start, end)` must be unsettled. An empty list means that a worker reads them from the
        log; the store notifies the owner when they arrive.

        Args:
            start: First offset.
            end: Offset after the last one.
            reader: Windows of a reader with its own position in the log; None for consumers.
        """
        if start >= self.ring.window_start:
            if reader is None and self._reader.windows:
                self._reader.clear()
            cursor = self.ring.cursor
            # As `read_memory`, without the call: this is asked for each delivery.
            return self.ring.read(start, end) if end <= cursor else self.read_memory(start, end)
        reader = reader or self._reader
        run = reader.get(start, min(end, self.ring.window_start))
        if run is None:
            reader.begin(start, self._window_arrived)
            return []
        reader.begin_ahead(self.ring.window_start, self._window_arrived_ahead)
        return run

    def read_memory(self, start: int, end: int) -> list[bytes]:
        """Return messages from `start` on, at least one, at most up to `end`.

        Args:
            start: First offset; not below the ring's window, and below `end_offset`.
            end: Offset after the last one.
        """
        cursor = self.ring.cursor
        if start < cursor:
            return self.ring.read(start, min(end, cursor))
        return self._overflow.read(start - cursor, end - cursor)

    def change_durability(self, durability: Durability) -> None:
        """Change what a confirm of a persistent message guarantees, from now on.

        With `fsync`, messages that were only written get their sync now; those that are confirmed
        already stay so.
        """
        self._settings = replace(self._settings, durability=durability)
        if durability is Durability.FSYNC:
            self.request_sync()
        self._mark_progress()

    def window_reader(self) -> WindowReader:
        """Return windows on the log for one more reader of `read`; the reader closes them."""
        return self.windows.new_reader()

    def release(self, ack_floor: int) -> None:
        """Release settled messages from the ring, once they are 256 or all that it holds."""
        end = self.ring.cursor + self._overflow.count
        assert ack_floor <= end, "I2: settled beyond the end of the store"
        if not self._is_journaled or ack_floor <= self.written_end:
            end = ack_floor if self._is_journaled else min(ack_floor, self.gating_sequence)
            if end >= self.ring.cursor or end - self.ring.window_start >= 256:
                self.ring.release(end)
                # Only messages of a transient queue wait to be spilled.
                if not self._is_journaled and self._spilling.is_delayed:
                    self._spilling.spill_delay.settled()
                    self._mark_resumed()
        if self._reader.windows:
            # No consumer reads them again, and they may keep a removed segment on the disk.
            self._reader.release_settled(ack_floor)
        # In a durable queue only the flusher frees slots.
        if self._overflow.count and not self._is_journaled:
            if self.gating_sequence > self.ring.cursor:
                # Already settled messages pass through the ring from the next turn on.
                self._mark_progress()
            else:
                self._fill_free_slots()

    async def until_read(self) -> None:
        """Return when the read that is under way has arrived; at once if there is none."""
        await self._reader.until_read()

    async def make_durable(self) -> None:
        """Return when all messages appended so far are on the disk, or cannot get there."""
        end = self.end_offset
        while self.recovery_point < end and not (
            self.is_failed or self.awaits_definition or self._is_discarded
        ):
            self.run_journal(may_wait=False)
            self.request_sync()
            waiter = asyncio.get_running_loop().create_future()
            self._flush_waiters.append(waiter)
            await waiter

    def wake_owner(self) -> None:
        """Give the queue a turn, because its log has become shorter."""
        self._owner.wake()

    def discard(self) -> None:
        """Release all messages and windows, because the queue is deleted."""
        self._is_discarded = True
        wake(self._flush_waiters)
        self.windows.close()
        self._overflow.clear()
        self.ring.release(self.ring.cursor)
        self._spilling.spill_delay.end()
        self._hand_over()
        # The queue refers to its store: without this, only the garbage collector would free both.
        self._owner = NO_OWNER
        self._spilling.spill_delay.set_owner(NO_OWNER)

    def release_memory(self) -> bool:
        """Release messages that the log has; after the last, start to write those that it has not.

        A transient queue in which messages have arrived since its last turn writes in the next one.
        It also delivers then: consumers that wait get the messages from memory.

        Returns:
            Whether there are more to release; the caller calls again.
        """
        end = min(self.gating_sequence, self.ring.cursor)
        if end - self.ring.window_start > RELEASED_MESSAGES_MAX:
            self.ring.release(self.ring.window_start + RELEASED_MESSAGES_MAX)
            return True
        self.ring.release(end)
        self.windows.clear()
        if not self._is_journaled:
            self._end_spill_delay()
            if self._request is not None or self.is_failed or self.end_offset == self._seen_end:
                self._spill()
            else:
                self._is_spill_due = True
                self._owner.wake(self.charged_task_queue)
        return False

    def request_sync(self) -> None:
        """Sync what was written without a sync.

        These are transient messages, and all messages of a queue with a durability below `fsync`.
        """
        if self.is_failed or self._is_discarded or not self._is_journaled:
            return
        if self._request is not None:
            # Remember the wish: a busy queue always has a request under way when it is asked.
            self._is_sync_due = not self._request.append.sync
        elif self.recovery_point < self.written_end:
            self._submit(FlushRequest(self.log, Append([], self.written_end, sync=True)))

    def request_roll(self) -> None:
        """Make the log seal its last segment, unless a write is under way."""
        if self.is_failed or self._is_discarded or self._request is not None:
            return
        append = Append([], self.written_end, sync=self._is_journaled)
        self._submit(FlushRequest(self.log, append, roll=True))

    def run_journal(self, *, may_wait: bool = True) -> bool:
        """Hand the next chunks to the flusher, if there is something to write.

        Args:
            may_wait: Whether the messages may wait for others (`group_commit`).

        Returns:
            Whether there is more to do at once; the caller calls again in the next turn.
        """
        if self._overflow.count and self.gating_sequence > self.ring.cursor:
            # Settled messages without a slot pass through the ring, one ring a turn, even while
            # the disk is busy.
            return self._fill_free_slots()
        if (
            self._request is not None
            or self.is_failed
            or self.awaits_definition
            or self._is_discarded
        ):
            return False
        if not self._is_journaled:
            is_stalled = self._overflow.count > 0
            self._seen_end = self.ring.cursor + self._overflow.count
            was_delayed = self._spilling.is_delayed
            is_due = self._spilling.is_due(self.written_end, is_stalled=is_stalled)
            if is_due or self._is_spill_due:
                self._is_spill_due = False
                self._spill()
            if was_delayed:
                self._mark_resumed()
            return False
        start, end = self.written_end, self.ring.cursor
        if start == end:
            if self._is_sync_due:
                self.request_sync()
            return False
        if may_wait and self._group.gathers and self.is_worth_waiting:
            self._waiting_writes.add(self)
            return False
        self._group.begin(end - start)
        self._start_request([(start, end)])
        return False

    @property
    def is_worth_waiting(self) -> bool:
        """Whether unwritten messages should wait for others while publishers send."""
        start, end = self.written_end, self.ring.cursor
        # Nothing joins the messages of a full ring: its publishers wait for this write.
        if start == end or self._is_discarded or self._overflow.count:
            return False
        return self._group.is_worth_waiting(start, end, self.ring.held_bytes / len(self.ring))

    def wake_for_write(self) -> None:
        """Let the queue write what waits, in the task queue of the client that published."""
        self._group.end_wait()
        self._owner.wake(self.charged_task_queue)

    def flushed(self, result: FlushResult) -> None:
        """Apply the flusher's result of this store's request."""
        request, self._request = self._request, None
        assert request is not None, "the flusher answered without a request"
        if result.error is not None:
            self.failure = result.error
            self._requests.restore_marks()
            logger.error("journal failed path=%s error=%s", self.log.directory, result.error)
            self.fail()
        else:
            append = request.append
            self.written_end = append.end_offset
            if append.sync:
                self.recovery_point = append.end_offset
            if self._is_journaled:
                # Consumers may settle before the disk has the messages; release these only now.
                end = min(self._settlement.ack_floor, self.written_end)
                if end > self.ring.window_start:
                    self.ring.release(end)
            else:
                self.ring.release(self.gating_sequence)
            self._use_room()
            self._hand_over()

    def fail(self) -> None:
        """Accept no more writes; the owner refuses what waits for the disk."""
        self.is_failed = True
        self._is_spill_due = False
        self._spilling.spill_delay.end()
        wake(self._flush_waiters)
        self._hand_over()

    def reopen(self) -> None:
        """Try to reopen the failed log; the store notifies the owner if this works."""
        if self.is_failed and not self._is_discarded and self._reopening is None:
            self._reopening = ReopenRequest(self.log)
            self._flusher.submit(self._reopening)

    def reopened(self, result: FlushResult) -> None:
        """Apply the flusher's result: continue at the end of the log, or stay failed.

        The ring still holds everything that is not in the log. The flusher writes it again.
        """
        self._reopening = None
        if result.error is not None or self._is_discarded:
            return
        self.written_end = max(self.written_end, self.log.log_end_offset)
        self.recovery_point = max(self.recovery_point, self.log.recovery_point)
        self._requests.forget_marks(self.written_end)
        self.is_failed = False
        self.failure = None
        logger.warning("journal continues path=%s offset=%d", self.log.directory, self.written_end)
        self._use_room()
        self._hand_over()

    def take_progress(self) -> StoreProgress:
        """Return the state of the store now, with the losses that were not reported before."""
        self.has_progressed = False
        lost = self._lost
        if lost:
            self._lost = []
        return StoreProgress(
            self.readable_end,
            self.confirmed_end,
            self.is_failed,
            tuple(lost),
        )

    def _mark_progress(self) -> None:
        """Let the owner take the progress in its turn; it may be in the middle of a change now."""
        self.has_progressed = True
        self._owner.wake()

    def _hand_over(self) -> None:
        """Let the owner apply the progress at once: confirms wait for no turn."""
        self._owner.store_answered(self.take_progress())

    def _mark_resumed(self) -> None:
        """Notify the owner if a spill is not delayed any more."""
        if not self._spilling.is_delayed:
            self._mark_progress()

    def _end_spill_delay(self) -> None:
        if self._spilling.is_delayed:
            self._spilling.spill_delay.end()
            self._mark_resumed()

    def _fill_free_slots(self) -> bool:
        """Move waiting messages into free slots of the ring; return whether there were any."""
        cursor = self.ring.cursor
        self._overflow.claim(self.ring, self.gating_sequence)
        if self.ring.cursor == cursor:
            return False
        if self.gating_sequence > cursor:
            # No other event may release these settled messages.
            self.ring.release(self.gating_sequence)
        # Perhaps no flush is under way that would notify the owner later.
        self._mark_progress()
        return True

    def _use_room(self) -> None:
        """Use the room above the log's new end, and wake those who wait for the disk."""
        if self._overflow.count:
            self._overflow.claim(self.ring, self.gating_sequence)
        assert self.recovery_point <= self.written_end <= self.ring.cursor, "I1: ends out of order"
        if self._flush_waiters:
            wake(self._flush_waiters)

    def _spill(self) -> None:
        if self._request is not None or self.is_failed:
            return
        ranges, end = self._spilling.oldest(self.gating_sequence)
        if ranges:
            self._start_request(ranges)
        elif end > self.gating_sequence:
            # All of it is settled: there is nothing to write or keep.
            self.written_end = end
            self.ring.release(self.gating_sequence)
            self._use_room()
            self._mark_progress()

    def _start_request(self, ranges: list[tuple[int, int]]) -> None:
        """Encode `ranges`, ascending, and submit them as one request; none may be under way."""
        sync = self._is_sync_due or (
            self._is_journaled
            and self._settings.durability is Durability.FSYNC
            and self._persistent_end > self.recovery_point
        )
        # The log has replay readers: keep its pages in the cache.
        floor = 0 if self.windows.are_shared else self._settlement.ack_floor
        self._submit(self._requests.make(self.ring, ranges, sync=sync, settled_floor=floor))

    def _submit(self, request: FlushRequest) -> None:
        self._request = request
        self._is_sync_due = self._is_sync_due and not request.append.sync
        self._flusher.submit(request, self.charged_task_queue)

    def _window_arrived_ahead(self) -> None:
        if not self._is_discarded:
            self._mark_progress()

    def _window_arrived(self, start: int, result: ReadResult | Exception) -> None:
        if self._is_discarded:
            return
        if isinstance(result, Exception):
            # A failed read loses nothing: the messages stay ready, and the queue repeats the read
            # in its next turn.
            logger.error(
                "read failed path=%s offset=%d error=%s", self.log.directory, start, result
            )
        else:
            first = result.parts[0].offsets[0] if result.parts else result.next_offset
            if first > start:
                self._lost.append((start, first))
        self._mark_progress()
