"""Frames of large messages go to the transport a part at a time, and everything else in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from pamqp import encode

from amqp_server.connections import outbox
from amqp_server.connections.outbox import Outbox
from amqp_server.protocol import large_delivery
from amqp_server.protocol.large_delivery import LargeFrames, content_of
from appendlog.layout.message import HAS_HEADERS, encode_message

FULL_BYTES = 100_000


class Transport:
    """Takes octets; the test lets the peer read them."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.unread_bytes = 0
        self.is_closed = False
        self.will_resume = False

    def write(self, octets: bytes) -> None:
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


class Bench:
    """An outbox, its transport, and the next turns of the loop."""

    def __init__(self) -> None:
        self.transport = Transport()
        self.turns: list[Callable[[], None]] = []
        self.empty_count = 0
        self.outbox = Outbox(
            cast("asyncio.Transport", self.transport), self.turns.append, FULL_BYTES, self.note
        )

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
    return max(int(parts * outbox.PART_BYTES), large_delivery.LARGE_MESSAGE_BYTES)


def test_octets_go_straight_to_the_transport() -> None:
    bench = Bench()
    bench.outbox.write(b"frames")

    assert bench.transport.sent == b"frames"
    assert (bench.outbox.waiting_bytes, bench.turns) == (0, [])


def test_a_large_message_of_one_part_waits_for_nothing() -> None:
    bench = Bench()
    bench.outbox.write(large(b"x", size_of_parts(0.5)))

    assert bench.transport.sent == whole(b"x", size_of_parts(0.5))
    assert (bench.outbox.waiting_bytes, bench.turns, bench.empty_count) == (0, [], 0)


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
        assert len(bench.transport.sent) - before_bytes <= outbox.PART_BYTES + 3 * 4096
        assert len(bench.transport.sent) + bench.outbox.waiting_bytes == len(expected)

    assert bench.transport.sent == expected
    assert (turn_count, bench.empty_count) == (3, 1)


def test_nothing_is_handed_over_while_the_transport_is_full() -> None:
    bench = Bench()
    bench.outbox.write(large(b"x", size_of_parts(2)))
    assert not bench.turns
    bench.transport.unread_bytes = 0
    bench.outbox.go_on()
    assert not bench.turns
    assert len(bench.transport.sent) >= 2 * outbox.PART_BYTES


def test_a_full_transport_says_when_it_has_room() -> None:
    bench = Bench()
    bench.outbox.write(large(b"x", size_of_parts(2)))

    assert bench.outbox.waiting_bytes
    assert bench.transport.will_resume


def test_a_transport_with_room_is_served_in_the_next_turn() -> None:
    bench = Bench()
    bench.transport.unread_bytes = -2 * outbox.PART_BYTES
    bench.outbox.write(large(b"x", size_of_parts(2)))
    assert len(bench.turns) == 1
    bench.outbox.go_on()
    assert len(bench.turns) == 1, "it is served once"
    bench.turn()
    assert bench.outbox.waiting_bytes < outbox.PART_BYTES


def test_nothing_is_sent_after_a_loss_or_to_a_closing_transport() -> None:
    bench = Bench()
    bench.transport.unread_bytes = -2 * outbox.PART_BYTES
    bench.outbox.write(large(b"x", size_of_parts(2)))
    sent_bytes = len(bench.transport.sent)
    bench.transport.is_closed = True
    bench.turn()
    bench.outbox.clear()
    bench.turn()

    assert len(bench.transport.sent) == sent_bytes
    assert (bench.outbox.waiting_bytes, bench.empty_count) == (0, 0)


@given(st.lists(st.integers(0, 40), max_size=8), st.lists(st.booleans(), max_size=40))
def test_all_octets_arrive_in_their_order(sizes: list[int], reads: list[bool]) -> None:
    bench = Bench()
    expected = b""
    for number, tenths in enumerate(sizes):
        octet = bytes([65 + number])
        if tenths < 10:
            bench.outbox.write(octet * tenths)
            expected += octet * tenths
        else:
            size = size_of_parts(tenths / 10)
            bench.outbox.write(large(octet, size))
            expected += whole(octet, size)
    for is_read in [*reads, *[True] * 40]:
        if is_read:
            bench.transport.unread_bytes = 0
            bench.outbox.go_on()
        bench.turn()
    assert bench.transport.sent == expected
    assert bench.outbox.waiting_bytes == 0
