"""What waits behind a full ring: a list whose front goes into the ring, whatever its pages are."""

from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.storing.overflow_buffer import OverflowBuffer
from ring import PAGE_SLOTS, PagePool, Ring

RING_SLOTS = 2 * PAGE_SLOTS
counts = st.integers(0, 5) | st.integers(0, 3 * PAGE_SLOTS)


@given(
    st.lists(st.tuples(counts, counts, counts, st.floats(0, 1), counts), max_size=12),
    st.sampled_from([1000, 1 << 20]),
)
def test_messages_are_read_and_claimed_as_from_a_list(
    steps: list[tuple[int, int, int, float, int]], ring_bytes: int
) -> None:
    waiting, expected = OverflowBuffer(), list[bytes]()
    ring = Ring(RING_SLOTS, ring_bytes, PagePool(1 << 30))
    number = 0
    for added, skipped, settled, place, count in steps:
        messages = [b"%d" % (number + step) for step in range(added)]
        number += added
        waiting.add(messages, min(skipped, added))
        expected += messages[skipped:]
        assert len(waiting) == len(expected)
        start = int(place * len(expected))
        assert waiting.read(start, start + count) == expected[start : start + count]
        cursor = ring.cursor
        waiting.claim(ring, min(ring.window_start + settled, cursor + len(expected)))
        claimed = ring.cursor - cursor
        assert ring.read(cursor, ring.cursor) == expected[:claimed]
        del expected[:claimed]
        assert len(waiting) == len(expected)
        # It claims all that there is room for.
        assert not expected or ring.try_claim(expected[:1], ring.window_start) == 0
    waiting.clear()
    assert (len(waiting), waiting.read(0, 1)) == (0, [])


def test_what_is_settled_passes_through_the_ring_a_ring_at_a_time() -> None:
    """All at once, a purge of a long queue would hold the event loop for as long as that takes."""
    waiting = OverflowBuffer()
    ring = Ring(RING_SLOTS, 1 << 30, PagePool(1 << 30))
    end = 5 * RING_SLOTS
    waiting.add([b"."] * end)
    for turn in range(1, 6):
        waiting.claim(ring, end)
        assert ring.cursor == turn * RING_SLOTS
    assert not waiting
