"""Places of the fields in deliveries that an independent codec has encoded."""

import struct

import pytest
from pamqp import body, commands, frame, header

from bench.delivery_layout import DeliveryLayout
from bench.errors import BrokenRhythmError, UnexpectedFrameError
from bench.message_body import FIELDS

BLOCK_MESSAGES = 3


def deliver(
    place: int, *, body_bytes: int = 40, consumer_tag: str = "bench", tag: int | None = None
) -> bytes:
    """Encode delivery number `place` of a stream, as a broker would."""
    block, index = divmod(place, BLOCK_MESSAGES)
    content = struct.pack(FIELDS, 0, index, block, 77).ljust(body_bytes, b"\0")
    properties = commands.Basic.Properties(delivery_mode=2)
    parts = (
        commands.Basic.Deliver(consumer_tag, place + 1 if tag is None else tag, False, "", "bench"),
        header.ContentHeader(0, len(content), properties),
        body.ContentBody(content),
    )
    return b"".join(frame.marshal(part, 7) for part in parts)


def learn(octets: bytes) -> DeliveryLayout:
    layout = DeliveryLayout.try_learn(octets)
    assert layout is not None
    return layout


@pytest.mark.parametrize("consumer_tag", ["", "bench", "t" * 255])
def test_the_first_delivery_says_where_all_fields_of_the_others_are(consumer_tag: str) -> None:
    stream = b"".join(deliver(place, consumer_tag=consumer_tag) for place in range(10))

    layout = learn(stream)

    assert len(stream) == 10 * layout.delivery_bytes
    fields = list(layout.read_fields(memoryview(stream)))
    assert fields == [(0, place % 3, place // 3, 77) for place in range(10)]
    for place in range(10):
        layout.check(memoryview(stream), place * layout.delivery_bytes, place, BLOCK_MESSAGES)


def test_in_a_stream_the_offset_in_the_headers_is_checked_too() -> None:
    far = 1 << 40
    properties = commands.Basic.Properties(headers={"x-stream-offset": far})
    plain = header.ContentHeader(0, 40, commands.Basic.Properties(delivery_mode=2))
    stamped = header.ContentHeader(0, 40, properties)
    found = frame.marshal(stamped, 7)
    assert found.count(struct.pack(">q", far)) == 1

    def delivery(place: int, offset: int) -> bytes:
        with_offset = found.replace(struct.pack(">q", far), struct.pack(">q", offset))
        return deliver(place).replace(frame.marshal(plain, 7), with_offset)

    right, wrong = delivery(4, 4), delivery(4, 5)
    layout = learn(right)
    layout.check(memoryview(right), 0, 4, BLOCK_MESSAGES)
    with pytest.raises(BrokenRhythmError, match="offset 5"):
        layout.check(memoryview(wrong), 0, 4, BLOCK_MESSAGES)


def test_a_delivery_that_is_not_whole_teaches_nothing_yet() -> None:
    delivery = deliver(0)

    assert all(DeliveryLayout.try_learn(delivery[:size]) is None for size in range(len(delivery)))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(deliver(5), id="a message is missing before it"),
        pytest.param(deliver(3), id="a message came twice"),
        pytest.param(deliver(4, tag=6), id="a delivery tag was left out"),
        pytest.param(deliver(4)[:-1] + b"\0", id="no end octet"),
        pytest.param(b"\2" + deliver(4)[1:], id="not a method frame"),
    ],
)
def test_a_delivery_out_of_its_place_is_noticed(wrong: bytes) -> None:
    layout = learn(deliver(0))

    layout.check(memoryview(deliver(4)), 0, 4, BLOCK_MESSAGES)
    with pytest.raises(BrokenRhythmError, match="delivery 4 of the stream"):
        layout.check(memoryview(wrong), 0, 4, BLOCK_MESSAGES)


def test_other_frames_among_deliveries_are_noticed() -> None:
    layout = learn(deliver(0))
    heartbeat = b"\x08\0\0\0\0\0\0\xce"
    stream = (deliver(0) + heartbeat + deliver(1))[: 2 * layout.delivery_bytes]

    with pytest.raises(BrokenRhythmError):
        layout.read_fields(memoryview(stream))


def test_a_close_instead_of_a_delivery_is_reported_with_its_text() -> None:
    close = frame.marshal(commands.Channel.Close(404, "NOT_FOUND - gone", 0, 0), 7)

    with pytest.raises(UnexpectedFrameError, match="NOT_FOUND - gone"):
        DeliveryLayout.try_learn(close)


def test_a_body_in_two_frames_is_refused() -> None:
    content_header = header.ContentHeader(0, 100, commands.Basic.Properties())
    parts = (
        commands.Basic.Deliver("bench", 1, False, "", "bench"),
        content_header,
        body.ContentBody(bytes(50)),
        body.ContentBody(bytes(50)),
    )

    with pytest.raises(UnexpectedFrameError, match="a body of 100 bytes, 50 of them"):
        DeliveryLayout.try_learn(b"".join(frame.marshal(part, 7) for part in parts))
