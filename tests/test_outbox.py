"""Frames of large messages go to the transport a part at a time, and everything else in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import encode

from amqp_server.broker.turn import TaskQueue, Turn
from amqp_server.connections.large_writes import SHARE_BYTES_MIN, TURN_BYTES, LargeWrites
from amqp_server.connections.outbox import HELD_BYTES_MAX, Outbox
from amqp_server.protocol import large_delivery
from amqp_server.protocol.large_delivery import LargeFrames, content_of
from appendlog.layout.message import HAS_HEADERS, encode_message
from tests.stopwatch import Stopwatch

FULL_BYTES = 100_000


class Transport:
    """Takes octets; the test lets the peer read them."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.unread_bytes = 0
        self.is_closed = False
        self.will_resume = False
        self.write_count = 0

    def write(self, octets: bytes) -> None:
        self.write_count += 1
        self.take(octets)
        self.will_resume |= self.unread_bytes > FULL_BYTES

    def writelines(self, pieces: list[bytes | memoryview]) -> None:
        # As asyncio's of Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1: it does not notice that it is
        # full.
        assert pieces, "they take no empty list"
        self.take(b"".join(pieces))

    def take(self, octets: bytes) -> None:
        assert not self.is_closed
        self.sent += octets
        self.unread_bytes += len(octets)

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def is_closing(self) -> bool:
        return self.is_closed


class Task:
    """A task of a turn."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def run_turn(self) -> None:
        self._work()


class Loop:
    """The next turn of the loop, and what connections share in it."""

    def __init__(self) -> None:
        self.turns: list[Callable[[], None]] = []
        self.large_writes = LargeWrites(self.turns.append)
        # On a busy machine a turn would have no time left, and the task would wait for the next.
        self.turn = Turn(
            self.turns.append, lambda seconds, call: pytest.fail("no timer"), stopwatch=Stopwatch()
        )

    def in_a_turn(self, work: Callable[[], object]) -> None:
        assert self.turn.run_now(Task(work), TaskQueue())


class Bench:
    """An outbox, its transport, and the next turns of the loop."""

    def __init__(self, loop: Loop | None = None) -> None:
        loop = loop or Loop()
        self.transport = Transport()
        self.loop = loop
        self.turns = loop.turns
        self.empty_count = 0
        self.outbox = Outbox(
            cast("asyncio.Transport", self.transport),
            loop.turn,
            loop.large_writes,
            FULL_BYTES,
            self.note,
        )

    def in_a_turn(self, *writes: bytes | LargeFrames) -> None:
        """Write in one turn; the octets that follow the first ones are held until it ends."""

        def write() -> None:
            for each in writes:
                self.outbox.write(each)

        self.loop.in_a_turn(write)

    def note(self) -> None:
        self.empty_count += 1

    def turn(self) -> None:
        turns, self.turns[:] = self.turns.copy(), []
        for run in turns:
            run()


def large(octet: bytes, size: int) -> LargeFrames:
    message = encode_message(0, b"", b"q", b"\0\0", octet * size)
    frames = content_of(message, 1, b"\0\x3c\0\x3c", b"", 4096)
    assert isinstance(frames, LargeFrames)
    return frames


def whole(octet: bytes, size: int) -> bytes:
    frames = large(octet, size)
    return b"".join(frames.take(len(frames)))


def size_of_parts(parts: float) -> int:
    return max(int(parts * TURN_BYTES), large_delivery.LARGE_MESSAGE_BYTES)


def test_octets_go_straight_to_the_transport() -> None:
    bench = Bench()
    bench.outbox.write(b"frames")

    assert bench.transport.sent == b"frames"
    assert (bench.outbox.waiting_bytes, bench.turns) == (0, [])


def test_what_follows_in_a_turn_goes_together_when_it_ends() -> None:
    """A consumer that got 200,000 single messages cost 200,000 writes to its socket."""
    bench = Bench()
    sent: list[bytes] = []

    def write() -> None:
        for octets in (b"a", bytearray(b"b"), b"c"):
            bench.outbox.write(octets)
            sent.append(bytes(bench.transport.sent))
        assert bench.outbox.unsent_bytes == 2
        assert bench.outbox.waiting_bytes == 0, "the client counts as one that does not read"

    bench.loop.in_a_turn(write)
    assert sent == [b"a"] * 3
    assert bench.transport.sent == b"abc"
    assert bench.transport.write_count == 2
    bench.in_a_turn(b"d")
    assert bench.transport.sent == b"abcd"
    assert bench.transport.write_count == 3
    bench.outbox.write(b"e")
    bench.outbox.write(b"f")
    assert bench.transport.sent == b"abcdef"
    assert bench.outbox.unsent_bytes == 0


def test_a_turn_that_is_left_early_keeps_nothing_back() -> None:
    bench = Bench()

    def write_and_leave() -> None:
        bench.outbox.write(b"a")
        bench.outbox.write(b"b")
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        bench.loop.in_a_turn(write_and_leave)
    assert bench.transport.sent == b"ab"
    bench.outbox.write(b"c")
    assert bench.transport.sent == b"abc"
    bench.loop.turn.mark(Task(write_and_leave))
    with pytest.raises(asyncio.CancelledError):
        bench.turn()
    assert bench.transport.sent == b"abcab"


def test_a_turn_within_a_turn_keeps_the_order() -> None:
    bench = Bench()

    def outer() -> None:
        bench.outbox.write(b"a")
        bench.outbox.write(b"b")
        bench.in_a_turn(b"c", b"d")
        bench.outbox.write(b"e")

    bench.loop.in_a_turn(outer)
    assert bench.transport.sent == b"abcde"


def test_what_is_held_is_bounded() -> None:
    bench = Bench()
    before: list[int] = []

    def write() -> None:
        for _ in range(3 * HELD_BYTES_MAX // 1000):
            bench.outbox.write(b"x" * 1000)
            before.append(bench.outbox.unsent_bytes)

    bench.loop.in_a_turn(write)
    assert HELD_BYTES_MAX - 1000 <= max(before) < HELD_BYTES_MAX
    assert len(bench.transport.sent) == 3 * HELD_BYTES_MAX // 1000 * 1000
    assert bench.transport.write_count == 4


def test_a_large_message_comes_after_what_was_held_before_it() -> None:
    bench = Bench()
    size = size_of_parts(0.5)
    bench.in_a_turn(b"a", b"b", large(b"x", size), b"c", b"d")
    bench.turn()
    assert bench.transport.sent == b"ab" + whole(b"x", size) + b"cd"


def test_nothing_is_held_for_a_lost_connection() -> None:
    bench = Bench()

    def write_and_lose() -> None:
        bench.outbox.write(b"a")
        bench.outbox.write(b"b")
        bench.outbox.clear()
        bench.transport.is_closed = True

    bench.loop.in_a_turn(write_and_lose)
    assert bench.transport.sent == b"a"
    assert bench.outbox.unsent_bytes == 0


def test_what_is_held_leaves_at_once_where_nothing_follows() -> None:
    bench = Bench()

    def write_and_close() -> None:
        bench.outbox.write(b"a")
        bench.outbox.write(b"b")
        bench.outbox.flush()
        bench.transport.is_closed = True

    bench.loop.in_a_turn(write_and_close)
    assert bench.transport.sent == b"ab"


def test_a_large_message_of_one_part_waits_for_nothing() -> None:
    bench = Bench()
    bench.outbox.write(large(b"x", size_of_parts(0.5)))

    assert bench.transport.sent == whole(b"x", size_of_parts(0.5))
    assert (bench.outbox.waiting_bytes, bench.empty_count) == (0, 0)
    bench.turn()
    assert not bench.turns, "the loop turned for nothing"


def test_a_large_message_may_have_no_body() -> None:
    bench = Bench()
    headers = encode.field_table({"key": "x" * large_delivery.LARGE_MESSAGE_BYTES})
    message = encode_message(HAS_HEADERS, b"", b"q", b"\x20\0" + headers, b"")
    frames = content_of(message, 1, b"\0\x3c\0\x3c", b"", 4096)
    assert isinstance(frames, LargeFrames)
    size = len(frames)
    bench.outbox.write(frames)

    assert len(bench.transport.sent) == size
    assert bench.outbox.waiting_bytes == 0


def test_each_turn_hands_over_a_part_and_what_is_sent_later_comes_behind() -> None:
    bench = Bench()
    bench.outbox.write(large(b"x", size_of_parts(2.6)))
    bench.outbox.write(b"behind")
    bench.outbox.write(large(b"y", size_of_parts(0.5)))
    expected = whole(b"x", size_of_parts(2.6)) + b"behind" + whole(b"y", size_of_parts(0.5))
    turn_count = 0
    while bench.outbox.waiting_bytes:
        before_bytes = len(bench.transport.sent)
        bench.transport.unread_bytes = 0
        # The transport was full: it says that it has room.
        bench.outbox.go_on()
        bench.turn()
        turn_count += 1
        assert len(bench.transport.sent) - before_bytes <= TURN_BYTES + 3 * 4096
        assert len(bench.transport.sent) + bench.outbox.waiting_bytes == len(expected)

    assert bench.transport.sent == expected
    assert (turn_count, bench.empty_count) == (3, 1)


def test_nothing_is_handed_over_while_the_transport_is_full() -> None:
    bench = Bench()
    bench.outbox.write(large(b"x", size_of_parts(2)))
    bench.turn()
    assert not bench.turns
    assert len(bench.transport.sent) <= TURN_BYTES + 3 * 4096
    bench.transport.unread_bytes = 0
    bench.outbox.go_on()
    bench.turn()
    assert len(bench.transport.sent) >= 2 * TURN_BYTES


def test_a_full_transport_says_when_it_has_room() -> None:
    bench = Bench()
    bench.outbox.write(large(b"x", size_of_parts(2)))

    assert bench.outbox.waiting_bytes
    assert bench.transport.will_resume


def test_a_transport_with_room_is_served_in_the_next_turn() -> None:
    bench = Bench()
    bench.transport.unread_bytes = -2 * TURN_BYTES
    bench.outbox.write(large(b"x", size_of_parts(2)))
    assert len(bench.turns) == 1
    bench.outbox.go_on()
    assert len(bench.turns) == 1, "it is served once"
    bench.turn()
    assert bench.outbox.waiting_bytes < TURN_BYTES


def test_many_connections_share_what_one_turn_hands_over() -> None:
    """Twenty copies of a large message in one turn held the loop for 9 ms."""
    loop = Loop()
    benches = [Bench(loop) for _ in range(20)]
    frames = large(b"x", size_of_parts(1.5))
    size = len(frames)
    for bench in benches:
        bench.transport.unread_bytes = -size
        bench.outbox.write(large(b"x", size_of_parts(1.5)))
    sent_bytes = 0
    turn_count = 0
    while any(bench.outbox.waiting_bytes for bench in benches):
        now_bytes = sum(len(bench.transport.sent) for bench in benches)
        assert now_bytes - sent_bytes <= TURN_BYTES + 3 * 4096
        sent_bytes = now_bytes
        turn_count += 1
        if turn_count == 4:
            least = min(len(bench.transport.sent) for bench in benches)
            assert least >= SHARE_BYTES_MIN - 4096 - 64, "one of them gets nothing"
        assert len(loop.turns) == 1
        benches[0].turn()

    assert all(bench.transport.sent == whole(b"x", size_of_parts(1.5)) for bench in benches)
    assert [bench.empty_count for bench in benches] == [1] * 20
    assert turn_count <= 20 * 1.5 + 5
    benches[0].turn()
    assert not loop.turns, "the loop turns for nothing"


class BrokenWriter:
    """A connection whose transport is in a state that nobody expects."""

    def hand_over_some(self, bytes_max: int) -> int:
        raise RuntimeError("the handler is closed")


def test_one_that_fails_keeps_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.transport.unread_bytes = -3 * TURN_BYTES
    bench.loop.large_writes.add(BrokenWriter())
    bench.outbox.write(large(b"x", size_of_parts(1.5)))
    while bench.turns:
        bench.turn()

    assert bench.transport.sent == whole(b"x", size_of_parts(1.5))
    assert len(caplog.records) == 1


def test_one_that_is_lost_while_it_waits_is_passed_over() -> None:
    loop = Loop()
    first, lost, last = benches = [Bench(loop) for _ in range(3)]
    for bench in benches:
        bench.transport.unread_bytes = -2 * TURN_BYTES
        bench.outbox.write(large(b"x", size_of_parts(1.5)))
    lost.transport.is_closed = True
    lost.outbox.clear()
    while loop.turns:
        first.turn()

    assert [len(bench.transport.sent) > TURN_BYTES for bench in benches] == [True, False, True]
    assert not lost.transport.sent
    assert last.empty_count == 1


def test_nothing_is_sent_after_a_loss_or_to_a_closing_transport() -> None:
    bench = Bench()
    bench.transport.unread_bytes = -2 * TURN_BYTES
    bench.outbox.write(large(b"x", size_of_parts(2)))
    sent_bytes = len(bench.transport.sent)
    bench.transport.is_closed = True
    bench.turn()
    bench.outbox.clear()
    bench.turn()

    assert len(bench.transport.sent) == sent_bytes
    assert (bench.outbox.waiting_bytes, bench.empty_count) == (0, 0)


@given(
    st.lists(st.lists(st.integers(0, 40), max_size=4), max_size=8),
    st.lists(st.booleans(), max_size=40),
)
def test_all_octets_arrive_in_their_order(turns: list[list[int]], reads: list[bool]) -> None:
    bench = Bench()
    expected = b""
    for number, sizes in enumerate(turns):
        writes: list[bytes | LargeFrames] = []
        for at, tenths in enumerate(sizes):
            octet = bytes([65 + 4 * number + at])
            if tenths < 20:
                writes.append(octet * tenths)
                expected += octet * tenths
            else:
                size = size_of_parts(tenths / 20)
                writes.append(large(octet, size))
                expected += whole(octet, size)
        bench.in_a_turn(*writes)
    for is_read in [*reads, *[True] * 40]:
        if is_read:
            bench.transport.unread_bytes = 0
            bench.outbox.go_on()
        bench.turn()
    assert bench.transport.sent == expected
    assert bench.outbox.waiting_bytes == 0
