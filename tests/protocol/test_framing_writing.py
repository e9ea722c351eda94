"""What the framing kernels write, by pamqp's account: deliveries, get-ok and return."""

from datetime import UTC, datetime
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header

from amqp_server.protocol.framing import Event, FrameScanner, encode_content, encode_deliveries
from appendlog.layout.message import decode_message, encode_message
from tests.protocol import wire
from tests.protocol.reference import Teller

messages = st.builds(
    encode_message,
    st.integers(0, 15),
    st.text(max_size=5).map(str.encode),
    st.text(max_size=5).map(str.encode),
    wire.property_lists().map(lambda properties: properties.octets),
    wire.bodies,
)


def content_frames(octets: bytes | bytearray, frame_max: int) -> list[tuple[int, Any, bytes]]:
    """Cut frames with pamqp; return channel, decoded value and payload of each."""
    octets = bytes(octets)
    frames = []
    while octets:
        consumed, channel, value = frame.unmarshal(octets)
        assert consumed <= frame_max
        frames.append((channel, value, octets[7 : consumed - 1]))
        octets = octets[consumed:]
    return frames


def take_content(frames: list[tuple[int, Any, bytes]], channel: int) -> tuple[bytes, bytes]:
    """Remove a header and its body frames; return properties and body."""
    header_channel, content, payload = frames.pop(0)
    assert isinstance(content, header.ContentHeader)
    assert (header_channel, payload[:4]) == (channel, b"\x00\x3c\x00\x00")
    parts = b""
    while len(parts) < content.body_size:
        body_channel, part, _ = frames.pop(0)
        assert isinstance(part, body.ContentBody)
        assert body_channel == channel
        assert part.value, "an empty body frame"
        parts += part.value
    assert len(parts) == content.body_size
    return payload[12:], parts


@given(
    alike=st.lists(st.tuples(messages, st.integers(1, 3)), max_size=5),
    channel=wire.channels,
    consumer_tag=st.text(max_size=10) | st.just("c" * 255),
    first_tag=st.sampled_from([1, 77, 2**32 - 1, 2**62]),
    redelivered=st.booleans(),
    frame_max=st.sampled_from([4_096, 4_097, 131_072]),
)
def test_deliveries_decode_to_what_was_published(
    alike: list[tuple[bytes, int]],
    channel: int,
    consumer_tag: str,
    first_tag: int,
    redelivered: bool,
    frame_max: int,
) -> None:
    run = [message for message, count in alike for _ in range(count)]

    octets = encode_deliveries(
        run, channel, consumer_tag.encode(), first_tag, redelivered, frame_max
    )

    frames = content_frames(octets, frame_max)
    for number, message in enumerate(run):
        expected = decode_message(message)
        method_channel, method, _ = frames.pop(0)
        assert isinstance(method, commands.Basic.Deliver)
        assert method_channel == channel
        assert method.consumer_tag == consumer_tag
        assert method.delivery_tag == first_tag + number
        assert method.redelivered == redelivered
        assert method.exchange == expected.exchange.decode()
        assert method.routing_key == expected.routing_key.decode()
        assert take_content(frames, channel) == (expected.properties, expected.body)
    assert frames == []


@given(message=messages, frame_max=st.sampled_from([4_096, 131_072]))
def test_get_ok_and_return_carry_the_message(message: bytes, frame_max: int) -> None:
    expected = decode_message(message)
    route = (expected.exchange.decode(), expected.routing_key.decode())

    get_ok = encode_content(
        message, 9, b"\x00\x3c\x00\x47" + pack(">QB", 12, 1), pack(">I", 34), frame_max
    )
    frames = content_frames(get_ok, frame_max)
    channel, method, _ = frames.pop(0)
    assert isinstance(method, commands.Basic.GetOk)
    assert (channel, method.delivery_tag, method.message_count) == (9, 12, 34)
    assert method.redelivered
    assert (method.exchange, method.routing_key) == route
    assert take_content(frames, 9) == (expected.properties, expected.body)

    returned = encode_content(
        message, 9, b"\x00\x3c\x00\x32" + pack(">HB", 312, 8) + b"NO_ROUTE", b"", frame_max
    )
    frames = content_frames(returned, frame_max)
    _, method, _ = frames.pop(0)
    assert isinstance(method, commands.Basic.Return)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key) == route
    assert take_content(frames, 9) == (expected.properties, expected.body)


@pytest.mark.parametrize(
    "body_bytes", [0, 1, 4_087, 4_088, 4_089, 2 * 4_088, 2 * 4_088 + 1, 20_000]
)
def test_bodies_are_cut_at_the_consumers_frame_size(body_bytes: int) -> None:
    message = encode_message(0, b"", b"q", b"\x00\x00", bytes(body_bytes))

    frames = content_frames(encode_deliveries([message], 1, b"c", 1, False, 4_096), 4_096)

    sizes = [len(payload) for _, _, payload in frames[2:]]
    assert sum(sizes) == body_bytes
    assert all(size == 4_088 for size in sizes[:-1])


PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": 1, "x-stream-offset": "of the publisher", "z": {"nested": [True, None]}},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c" * 255,
    "reply_to": "r",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC),
    "message_type": "t",
    "user_id": "guest",
    "app_id": "a",
    "cluster_id": "",
}


def test_every_combination_of_properties_comes_with_the_offset() -> None:
    names = list(PROPERTIES)
    chosen = [
        {name: PROPERTIES[name] for bit, name in enumerate(names) if number >> bit & 1}
        for number in range(1 << len(names))
    ]
    run = []
    for each in chosen:
        content = header.ContentHeader(0, 4, commands.Basic.Properties(**each))
        run.append(encode_message(2 * ("headers" in each), b"", b"q", content.marshal()[12:], b"b"))

    contents: list[Any] = []
    for start in range(0, len(run), 256):
        some = run[start : start + 256]
        octets = encode_deliveries(some, 1, b"c", 1, False, 4_096, 1_000 + start)
        contents += [value for _, value, _ in content_frames(octets, 4_096)][1::3]

    for number, (each, content) in enumerate(zip(chosen, contents, strict=True)):
        expected = {"a": 1, "z": {"nested": [True, None]}} if "headers" in each else {}
        expected |= {"x-stream-offset": 1_000 + number}
        sent = commands.Basic.Properties(**each | {"headers": expected})
        assert dict(content.properties) == dict(sent), each


@pytest.mark.parametrize("table_bytes", [4_000, 4_070, 4_090, 100_000])
def test_a_content_header_is_one_frame_however_long_the_offset_makes_it(table_bytes: int) -> None:
    entries = b"\x01aS" + pack(">I", table_bytes) + b"x" * table_bytes
    properties = b"\x20\x00" + pack(">I", len(entries)) + entries
    message = encode_message(2, b"", b"q", properties, b"y" * 5_000)

    octets = encode_deliveries([message], 1, b"c", 1, False, 4_096, 7)

    frames = content_frames(octets, table_bytes + 4_096)
    assert [len(payload) for _, _, payload in frames[1:]] == [
        12 + len(properties) + 25,
        4_088,
        5_000 - 4_088,
    ]
    assert frames[1][1].properties.headers == {"a": "x" * table_bytes, "x-stream-offset": 7}


def test_a_run_of_nothing_is_no_octets() -> None:
    assert encode_deliveries([], 1, b"c", 1, False, 4_096) == b""


@given(run=wire.publish_runs())
def test_what_was_scanned_is_what_is_delivered(run: list[wire.Publish]) -> None:
    """There and back: the consumer's frames differ, the message does not."""
    teller = Teller()
    octets = wire.octets_of(*run)
    events: list[Event] = []
    FrameScanner(wire.FRAME_MAX, wire.BODY_MAX).scan(octets, 0, len(octets), events)
    teller.take(events)
    taken = [statement[3] for statement in teller.statements]
    assert taken == [each.message for each in run]

    frames = content_frames(encode_deliveries(taken, 6, b"", 1, True, 131_072), 131_072)

    assert len([each for each in frames if isinstance(each[1], commands.Basic.Deliver)]) == len(run)
