"""The ring against a dictionary, and the cases that have a name."""

import gc

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ring import PAGE_SLOTS, PagePool, Ring, RingError, SequenceNotHeldError

CAPACITY_BYTES = 64 * 1024


def make_ring(
    capacity: int = PAGE_SLOTS, capacity_bytes: int = CAPACITY_BYTES, sequence: int = 0
) -> tuple[Ring, PagePool]:
    pool = PagePool(bytes_max=1 << 30)
    return Ring(capacity, capacity_bytes, pool, sequence), pool


def numbered(start: int, end: int, message_bytes: int = 8) -> list[bytes]:
    return [number.to_bytes(message_bytes, "big") for number in range(start, end)]


@pytest.mark.parametrize("capacity", [0, 1, PAGE_SLOTS - 1, PAGE_SLOTS + 1, -PAGE_SLOTS])
def test_a_capacity_that_is_not_whole_pages_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="positive multiple"):
        make_ring(capacity)


def test_an_idle_ring_holds_no_page() -> None:
    ring, pool = make_ring(sequence=12_345)

    assert (len(ring), ring.cursor, ring.window_start, pool.lent_pages) == (0, 12_345, 12_345, 0)
    assert ring.fill == 0.0


def test_what_was_published_is_read_back_across_page_edges() -> None:
    ring, pool = make_ring(2 * PAGE_SLOTS, sequence=1_000)
    messages = numbered(1_000, 1_000 + 2 * PAGE_SLOTS)

    assert ring.try_claim(messages, 1_000) == len(messages)
    ring.publish(messages)

    assert ring.read(1_000, ring.cursor) == messages
    assert ring.read(1_020, 1_030) == messages[20:30]
    # The first page begins where the ring was empty.
    assert pool.lent_pages == 2
    assert ring.remaining_capacity == 0
    assert ring.fill == 1.0


def test_claim_is_refused_when_the_slowest_gate_is_a_lap_behind() -> None:
    ring, _ = make_ring()
    ring.publish(numbered(0, PAGE_SLOTS))

    assert ring.try_claim([b"one more"], 0) == 0
    assert ring.window_start == 0


def test_claim_takes_only_the_slots_that_the_gate_gives_up() -> None:
    ring, _ = make_ring()
    ring.publish(numbered(0, PAGE_SLOTS))

    assert ring.try_claim(numbered(0, 10), 4) == 4
    assert ring.window_start == 4


def test_a_ring_whose_gate_follows_never_blocks() -> None:
    ring, pool = make_ring()

    count = PAGE_SLOTS - 24
    for lap in range(5):
        start = lap * count
        batch = numbered(start, start + count)
        assert ring.try_claim(batch, ring.cursor) == len(batch)
        ring.publish(batch)
        assert ring.read(start, start + count) == batch
        assert pool.lent_pages <= 2


def test_claim_gives_up_slots_when_bytes_are_short() -> None:
    ring, _ = make_ring(capacity_bytes=1_000)
    ring.publish([bytes(100)] * 10)

    assert ring.try_claim([bytes(100)], 0) == 0
    assert ring.try_claim([bytes(100)] * 3, 2) == 2
    assert ring.window_start == 2


def test_a_message_larger_than_the_ring_is_taken_when_alone() -> None:
    ring, pool = make_ring(capacity_bytes=1_000)
    ring.publish([bytes(100)])
    large = bytes(5_000)

    assert ring.try_claim([large, b"next"], 0) == 0
    assert ring.try_claim([large, b"next"], 1) == 1
    ring.publish([large])
    assert ring.fill == 5.0
    assert ring.try_claim([b"next"], 1) == 0
    assert ring.try_claim([b"next"], 2) == 1
    assert pool.held_bytes == ring.held_bytes == 0


def test_a_batch_of_more_than_all_slots_is_still_bound_by_bytes() -> None:
    """A batch longer than the ring used to be granted by slots alone when the ring was empty."""
    ring, _ = make_ring(capacity_bytes=10_000)

    assert ring.try_claim([bytes(100)] * (PAGE_SLOTS + 1), 0) == 100


def test_an_empty_batch_claims_nothing() -> None:
    ring, pool = make_ring()

    assert ring.try_claim([], 0) == 0
    ring.publish([])

    assert (len(ring), pool.lent_pages) == (0, 0)


@pytest.mark.parametrize(("start", "end", "missing"), [(9, 12, 9), (12, 21, 20), (0, 30, 0)])
def test_reading_what_is_not_held_is_an_error(start: int, end: int, missing: int) -> None:
    ring, _ = make_ring(sequence=10)
    ring.publish(numbered(10, 20))

    with pytest.raises(SequenceNotHeldError) as caught:
        ring.read(start, end)

    error = caught.value
    assert isinstance(error, RingError)
    assert (error.sequence, error.window_start, error.cursor) == (missing, 10, 20)


def test_holds_tells_the_window() -> None:
    ring, _ = make_ring(sequence=10)
    ring.publish(numbered(10, 20))
    ring.release(12)

    assert [ring.holds(sequence) for sequence in (11, 12, 19, 20)] == [False, True, True, False]


def test_a_drained_ring_gives_all_pages_back() -> None:
    start, end = PAGE_SLOTS // 2, PAGE_SLOTS // 2 + 2 * PAGE_SLOTS - 1
    ring, pool = make_ring(2 * PAGE_SLOTS, sequence=start)
    ring.publish(numbered(start, end))
    assert pool.lent_pages == 2

    ring.release(start + PAGE_SLOTS)
    assert pool.lent_pages == 1
    ring.release(end - 1)
    assert pool.lent_pages == 1
    ring.release(end)

    assert (pool.lent_pages, pool.held_bytes, len(ring)) == (0, 0, 0)
    ring.publish(numbered(end, end + 1))
    assert ring.read(end, end + 1) == numbered(end, end + 1)


def test_release_past_the_cursor_stops_there() -> None:
    ring, _ = make_ring()
    ring.publish(numbered(0, 5))

    ring.release(1_000_000)

    assert (ring.window_start, ring.cursor) == (5, 5)


sizes = st.integers(1, 40) | st.integers(1, 3_000) | st.just(CAPACITY_BYTES + 1)
batches = st.lists(sizes, max_size=30) | st.builds(
    lambda count, size: [size] * count, st.integers(0, 3 * PAGE_SLOTS), st.integers(1, 120)
)


def test_the_collector_walks_little_of_many_rings_with_few_messages() -> None:
    """It walks all that is new in one piece, on the thread of the event loop."""
    rings = [make_ring(65_536)[0] for _ in range(100)]
    gc.collect()
    gc.disable()
    try:
        for ring in rings:
            ring.publish([b"message"])
        walked = sum(len(gc.get_referents(each)) for each in gc.get_objects(generation=0))
    finally:
        gc.enable()

    assert walked < 200 * len(rings)


class RingMachine(RuleBasedStateMachine):
    """Batches in, gates moving, against a dictionary of what must be readable."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(bytes_max=1 << 30, spare_slots_max=2 * PAGE_SLOTS)
        self.held: dict[int, bytes] = {}
        self.gate = 0

    @initialize(pages=st.integers(1, 3), sequence=st.integers(0, 5 * PAGE_SLOTS))
    def start(self, pages: int, sequence: int) -> None:
        self.ring = Ring(pages * PAGE_SLOTS, CAPACITY_BYTES, self.pool, sequence)
        self.gate = self.next = self.emptied = sequence

    @rule(batch=batches)
    def publish(self, batch: list[int]) -> None:
        messages = [
            (self.next + number).to_bytes(8, "big")[-size:] + bytes(max(size - 8, 0))
            for number, size in enumerate(batch)
        ]
        claimed = self.ring.try_claim(messages, self.gate)
        if not len(self.ring):
            self.emptied = self.next
        # No less was granted than fits beside what the gate protects.
        kept = [self.held[at] for at in range(self.gate, self.next)]
        if claimed < len(messages):
            room = claimed + len(kept) < self.ring.capacity
            fitting = sum(map(len, kept + messages[: claimed + 1])) <= CAPACITY_BYTES
            assert not (room and (fitting or not kept + messages[:claimed]))
        self.ring.publish(messages[:claimed])
        for message in messages[:claimed]:
            self.held[self.next] = message
            self.next += 1

    @rule(share=st.floats(0, 1))
    def move_gate(self, share: float) -> None:
        self.gate += int((self.next - self.gate) * share)

    @rule(share=st.floats(0, 1))
    def release(self, share: float) -> None:
        start = self.ring.window_start
        self.ring.release(min(self.gate, start + int((self.gate - start) * share)))

    @rule(low=st.floats(0, 1), high=st.floats(0, 1))
    def read_a_part(self, low: float, high: float) -> None:
        count = len(self.ring)
        start = self.ring.window_start + int(min(low, high) * count)
        end = self.ring.window_start + int(max(low, high) * count)
        assert self.ring.read(start, end) == [self.held[at] for at in range(start, end)]

    @invariant()
    def the_window_is_what_was_published_and_not_given_up(self) -> None:
        ring = self.ring
        assert ring.cursor == self.next
        assert ring.window_start <= self.gate
        if not len(ring):
            self.emptied = ring.cursor
        messages = ring.read(ring.window_start, ring.cursor)
        assert messages == [self.held[at] for at in range(ring.window_start, ring.cursor)]
        assert ring.held_bytes == self.pool.held_bytes == sum(map(len, messages))
        assert ring.held_bytes <= CAPACITY_BYTES or len(ring) == 1
        assert len(ring) + ring.remaining_capacity == ring.capacity
        pages = {(at - self.emptied) // PAGE_SLOTS for at in range(ring.window_start, ring.cursor)}
        assert self.pool.lent_pages == len(pages)


TestRingMachine = RingMachine.TestCase


def test_a_ring_that_must_keep_something_grants_nothing_while_all_rings_hold_too_much() -> None:
    pool = PagePool(bytes_max=100)
    ring, other = Ring(PAGE_SLOTS, 1000, pool), Ring(PAGE_SLOTS, 1000, pool)
    ring.publish([b"unwritten"])
    other.publish([bytes(101)])

    assert ring.try_claim([b"more"], gating_sequence=0) == 0
    # What is written need not be kept: the claim goes on.
    assert ring.try_claim([b"more"], gating_sequence=1) == 1

    other.release(1)
    assert ring.try_claim([b"more"], gating_sequence=0) == 1


def test_a_full_ring_that_takes_nothing_borrows_no_page() -> None:
    ring, pool = make_ring()
    ring.publish(numbered(0, PAGE_SLOTS))
    claimed = ring.try_claim([b"one more"], 0)
    assert (claimed, pool.lent_pages) == (0, 1)

    # `MessageStore.append` and `OverflowBuffer.claim` publish what was granted, also if it is none.
    ring.publish([b"one more"][:claimed])

    assert pool.lent_pages == 1
    ring.release(ring.cursor)
    assert (len(ring), pool.lent_pages) == (0, 0)
