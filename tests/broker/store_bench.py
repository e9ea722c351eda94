"""A message store on a real log and a real flusher, with the event loop's part done by the test.

What the flusher's thread and the reading thread report is put in one queue; `settle_down` and
`until` take it from there and hand it to the store, in the test's own thread. So nothing
happens behind the test's back, and nothing waits for time.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from uuid import UUID

from amqp_server.base.clock import Timer
from amqp_server.base.config import Durability
from amqp_server.broker.storing.group_commit import WaitingWrites
from amqp_server.broker.storing.message_store import MessageStore
from amqp_server.broker.storing.spill_delay import ThrottledQueues
from amqp_server.broker.storing.storage_settings import StoreSettings
from amqp_server.broker.storing.store_owner import StoreProgress
from amqp_server.broker.turn import TaskQueue, Turn, TurnTask
from appendlog import (
    FileSystem,
    FlushResult,
    Log,
    LogIdentity,
    LogOptions,
    ReadResult,
    ReopenRequest,
    encode_message,
)
from offsets.settlement import Settlement
from ring import PagePool, Ring
from tests.driven_flusher import DrivenFlusher
from tests.limits import HANG_SECONDS

RING_SLOTS = 1024
RING_BYTES = 64 * 1024
IDENTITY = LogIdentity("/", "q", UUID(int=1))


def numbered_message(number: int, size: int = 60, *, persistent: bool = True) -> bytes:
    return encode_message(persistent, b"", b"q", b"\x00\x00", b"%08d" % number * (size // 8))


class StoreBench:
    """One store and everything around it; also the owner that hears of progress."""

    def __init__(
        self,
        directory: Path,
        *,
        is_journaled: bool,
        durability: Durability = Durability.FSYNC,
        flush_bytes: int = 4096,
        flush_interval_seconds: float = 1_000.0,
        segment_bytes: int = 1 << 20,
        filesystem: FileSystem | None = None,
        throttled_queues: ThrottledQueues | None = None,
    ) -> None:
        self._reports: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._reader = ThreadPoolExecutor(1)
        self._underway = 0
        self.directory = directory / "log"
        self.filesystem = filesystem
        self.options = LogOptions(segment_bytes=segment_bytes)
        self.log, self.report = Log.open(self.directory, IDENTITY, self.options, filesystem)
        self.pool = PagePool(1 << 30)
        self.ring = Ring(RING_SLOTS, RING_BYTES, self.pool, self.log.log_end_offset)
        self.settlement = Settlement()
        self.flusher = DrivenFlusher(self._take_round)
        self.flusher.start()
        self.moves = 0
        self.answers = 0
        self.known_cursor = self.log.log_end_offset
        self.lost: list[tuple[int, int]] = []
        self.expected: dict[int, bytes] = {}
        self.is_being_read = False
        self.seconds = 0.0
        self.alarms: list[tuple[float, TurnTask]] = []
        self.throttled_queues = throttled_queues or ThrottledQueues(
            self._mark_after, lambda: self.seconds
        )
        # Turns of the loop, of which the test runs each.
        self.turns: list[Callable[[], None]] = []
        self.waiting_writes = WaitingWrites(Turn(self.turns.append, self._call_later))
        self.store = MessageStore(
            log=self.log,
            ring=self.ring,
            settlement=self.settlement,
            is_journaled=is_journaled,
            settings=StoreSettings(durability, flush_bytes, flush_interval_seconds),
            flusher=self.flusher,
            read_in_worker=self._read_in_worker,
            owner=self,
            throttled_queues=self.throttled_queues,
            waiting_writes=self.waiting_writes,
        )
        self.progress = self.store.take_progress()

    def close(self) -> None:
        self.flusher.close()
        self._reader.shutdown()
        if self.log.failed is None:
            self.log.close()

    # The owner's part

    def wake(self, task_queue: TaskQueue | None = None) -> None:
        self.moves += 1
        self.known_cursor = self.store.cursor

    def store_answered(self, progress: StoreProgress) -> None:
        self.answers += 1
        self.wake()
        self._apply(progress)

    def take_progress(self) -> None:
        """Do what a queue does at the beginning of its turn."""
        if self.store.has_progressed:
            self._apply(self.store.take_progress())

    def _apply(self, progress: StoreProgress) -> None:
        self.progress = progress
        self.lost += progress.lost

    # The loop's part

    def _call_later(self, seconds: float, run: Callable[[], None]) -> Timer:
        raise AssertionError("nothing here waits for time")

    def turn(self) -> None:
        """Run what waits for a turn, once."""
        turns, self.turns[:] = self.turns.copy(), []
        for run in turns:
            run()

    def pass_time(self, seconds: float) -> None:
        """Let time pass and run what is due then."""
        self.seconds += seconds
        due = [alarm for alarm in self.alarms if alarm[0] <= self.seconds]
        self.alarms = [alarm for alarm in self.alarms if alarm[0] > self.seconds]
        for _, task in due:
            task.run_turn()
        self.run_turns()

    def take_report(self) -> None:
        """Wait for one thing that a thread has done, and hand it to the store."""
        self._reports.get(timeout=HANG_SECONDS)()
        self.take_progress()

    def run_turns(self) -> None:
        """Run the journal as a queue does: again whenever something has moved."""
        seen = -1
        while seen != self.moves:
            seen = self.moves
            self.take_progress()
            self.store.run_journal(may_wait=False)

    def until(self, is_reached: Callable[[], bool]) -> None:
        """Run the journal and take reports until something is reached."""
        self.run_turns()
        while not is_reached():
            self.take_report()
            self.run_turns()

    def settle_down(self) -> None:
        """Run the journal and take reports until nothing is under way."""
        self.until(lambda: not self.store.is_flushing and self._underway == 0)

    # The queue's part

    def publish(self, count: int, size: int = 60, *, persistent: bool = True) -> None:
        """Append one batch; `expected` knows what each offset must read as."""
        start = self.store.end_offset
        messages = [
            numbered_message(start + step, size, persistent=persistent) for step in range(count)
        ]
        self.expected.update(zip(range(start, start + count), messages, strict=True))
        assert self.store.append(messages, persistent=persistent) == start + count
        self.known_cursor = self.store.cursor

    def settle(self, start: int, end: int) -> None:
        assert self.settlement.settle(start, end) == end - start
        self.store.release(self.settlement.ack_floor)

    def read(self, start: int, end: int) -> list[bytes]:
        """Return the messages of `[start, end)`, however often they must be fetched."""
        messages: list[bytes] = []
        while start < end:
            part = self.store.read(start, end)
            assert len(part) <= end - start
            if part:
                messages += part
                start += len(part)
            else:
                self.take_report()
        return messages

    def assert_all_readable(self) -> None:
        """Every message that is not settled reads as what was published, in order."""
        for start, end in self.settlement.unsettled_ranges(0, self.store.end_offset):
            assert self.read(start, end) == [self.expected[offset] for offset in range(start, end)]
        assert self.lost == []

    def logged(self) -> dict[int, bytes]:
        """Return what the log holds, by offset."""
        result = self.log.read(0, 1 << 30, 1 << 30)
        return dict(zip(result.offsets, result.messages, strict=True))

    def _mark_after(self, seconds: float, task: TurnTask) -> None:
        self.alarms.append((self.seconds + seconds, task))

    def _take_round(self, results: list[FlushResult]) -> None:
        for result in results:
            is_reopened = isinstance(result.request, ReopenRequest)
            take = self.store.reopened if is_reopened else self.store.flushed
            self._reports.put(partial(take, result))

    def _read_in_worker(
        self,
        read: Callable[[], ReadResult],
        arrived: Callable[[ReadResult | Exception], None],
    ) -> None:
        self._underway += 1

        def done(result: ReadResult | Exception) -> None:
            self._underway -= 1
            arrived(result)

        def run() -> None:
            result: ReadResult | Exception
            try:
                result = read()
            except Exception as error:  # noqa: BLE001 - the store judges it
                result = error
            self._reports.put(lambda: done(result))

        self._reader.submit(run)


MakeBench = Callable[..., StoreBench]
