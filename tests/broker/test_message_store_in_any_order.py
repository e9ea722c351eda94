"""Publish, settle, read, give memory up, hear of the disk: in any order, nothing is ever lost."""

import random
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amqp_server.base.config import Durability
from appendlog import Log
from ring import PAGE_SLOTS
from tests.broker.store_bench import IDENTITY, RING_BYTES, RING_SLOTS, StoreBench
from tests.faults.faulty_filesystem import FaultyFileSystem


class StoreMachine(RuleBasedStateMachine):
    """Publish, settle, requeue-like reads, give memory up, hear of the disk: in any order."""

    @initialize(
        is_journaled=st.booleans(),
        durability=st.sampled_from(Durability),
        flush_bytes=st.sampled_from([1, 500, 100_000]),
    )
    def start(self, is_journaled: bool, durability: Durability, flush_bytes: int) -> None:
        self.directory = Path(mkdtemp())
        self.filesystem = FaultyFileSystem(self.directory)
        self.queue = StoreBench(
            self.directory,
            is_journaled=is_journaled,
            durability=durability,
            flush_bytes=flush_bytes,
            segment_bytes=50_000,
            filesystem=self.filesystem,
        )
        self.is_journaled = is_journaled
        self.queue.store.append([], persistent=True)

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        queue = self.queue
        self.filesystem.sync_gate.set()
        queue.settle_down()
        assert not queue.store.is_stalled
        queue.assert_all_readable()
        queue.close()
        if self.is_journaled:
            self.assert_reopened_log_has_all()
        rmtree(self.directory)

    def assert_reopened_log_has_all(self) -> None:
        log, _ = Log.open(self.queue.directory, IDENTITY)
        result = log.read(0, 1 << 30, 1 << 30)
        log.close()
        expected = self.queue.expected
        assert dict(zip(result.offsets, result.messages, strict=True)) == expected
        assert result.offsets == sorted(expected)

    @rule(
        count=st.integers(1, 30) | st.integers(1, 1_500),
        size=st.sampled_from([0, 0, 40, 500]),
        persistent=st.booleans(),
    )
    def publish(self, count: int, size: int, persistent: bool) -> None:
        self.queue.publish(min(count, 200) if size == 500 else count, size, persistent=persistent)

    @rule(share=st.floats(0, 1), count=st.integers(1, 10) | st.integers(1, 2_000))
    def settle(self, share: float, count: int) -> None:
        queue = self.queue
        start = int(share * queue.store.end_offset)
        for low, high in queue.settlement.unsettled_ranges(
            start, min(start + count, queue.store.end_offset)
        ):
            queue.settle(low, high)

    @precondition(lambda self: self.queue.store.end_offset > 0)
    @rule(count=st.integers(1, 2_000))
    def settle_from_the_floor(self, count: int) -> None:
        floor = self.queue.settlement.ack_floor
        for low, high in self.queue.settlement.unsettled_ranges(
            floor, min(floor + count, self.queue.store.end_offset)
        ):
            self.queue.settle(low, high)

    @rule(seed=st.integers(0, 1_000))
    def read_here_and_there(self, seed: int) -> None:
        queue, chance = self.queue, random.Random(seed)
        ranges = queue.settlement.unsettled_ranges(0, queue.store.end_offset)
        for start, end in chance.sample(ranges, min(len(ranges), 4)):
            low = chance.randrange(start, end)
            high = min(end, low + chance.choice([1, 10, 3_000]))
            assert queue.read(low, high) == [queue.expected[at] for at in range(low, high)]

    @rule()
    def begin_to_write(self) -> None:
        self.queue.store.run_journal(may_wait=False)

    @rule()
    def let_the_disk_catch_up(self) -> None:
        self.filesystem.sync_gate.set()
        self.queue.settle_down()

    @rule()
    def hold_the_disk(self) -> None:
        self.filesystem.sync_gate.clear()

    @rule()
    def release_memory(self) -> None:
        self.queue.store.release_memory()

    @rule()
    def sync(self) -> None:
        self.queue.store.request_sync()

    @invariant()
    def the_window_holds_what_is_nowhere_else(self) -> None:
        if not hasattr(self, "queue"):
            return
        store, ring, log = self.queue.store, self.queue.ring, self.queue.log
        assert self.queue.lost == []
        assert self.queue.known_cursor == store.cursor, "claimed in silence"
        assert ring.window_start <= store.gating_sequence <= store.end_offset
        assert store.written_end <= store.cursor <= store.end_offset
        assert store.recovery_point <= store.written_end
        assert store.recovery_point <= log.recovery_point
        assert ring.held_bytes <= RING_BYTES or len(ring) == 1
        assert self.queue.pool.lent_pages <= RING_SLOTS // PAGE_SLOTS + 1
        if self.is_journaled:
            assert store.written_end <= log.log_end_offset


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=settings().max_examples // 2, stateful_step_count=30, deadline=None
)
