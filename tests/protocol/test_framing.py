"""What the framing kernels read and write, by pamqp's account and whatever the splits."""

from dataclasses import replace
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol._scanning_py import REPEATS_MAX
from amqp_server.protocol.framing import (
    AckRun,
    BrokenFrame,
    ContentBody,
    ContentHeader,
    Event,
    FrameScanner,
    HeartbeatFrame,
    MethodFrame,
    PublishRow,
    PublishRun,
)
from appendlog.layout.message import HAS_EXPIRATION, HAS_HEADERS, HAS_PRIORITY, PERSISTENT
from tests.protocol import wire
from tests.protocol.reference import Statement, Teller, statements_by_pamqp

PLAIN = wire.PropertyList(b"\x00\x00", 0)
PERSISTENT_PRIORITY = wire.PropertyList(b"\x18\x00\x02\x05", PERSISTENT | HAS_PRIORITY)


def publish(
    body: bytes = b"hello",
    *,
    channel: int = 1,
    exchange: bytes = b"",
    routing_key: bytes = b"q",
    properties: wire.PropertyList = PLAIN,
) -> wire.Publish:
    return wire.Publish(channel, exchange, routing_key, 0, properties, body, wire.BODY_MAX)


_OF_A_ROW = ("method_payload", "message")


def whole(event: Event) -> PublishRun | PublishRow:
    """Return an event that must be one of whole publishes."""
    assert isinstance(event, PublishRun | PublishRow)
    return event


def scan(octets: bytes, body_bytes_max: int = wire.BODY_MAX) -> tuple[list[Event], int]:
    """Return the events of one buffer, and how many octets were left over."""
    events: list[Event] = []
    scanner = FrameScanner(wire.FRAME_MAX, body_bytes_max)
    return events, len(octets) - scanner.scan(octets, 0, len(octets), events)


def statements(pieces: list[bytes], body_bytes_max: int = wire.BODY_MAX) -> list[Statement]:
    """Read pieces one after the other through one reused buffer, as a connection does."""
    scanner = FrameScanner(wire.FRAME_MAX, body_bytes_max)
    teller = Teller()
    buffer = bytearray(b"\x01") * (sum(map(len, pieces)) + 64)
    rest = b""
    for piece in pieces:
        end = len(rest) + len(piece)
        buffer[:end] = rest + piece
        events: list[Event] = []
        at = scanner.scan(buffer, 0, end, events)
        assert 0 <= at <= end
        teller.take(events)
        rest = bytes(buffer[at:end])
    assert rest == b""
    return teller.statements


# Reading: the events


def test_equal_publishes_are_one_run() -> None:
    run = [publish(b"a"), publish(b"b"), publish(b"c")]

    events, left = scan(wire.octets_of(*run))

    assert left == 0
    assert events == [PublishRun(1, run[0].method_payload, [each.message for each in run], 0, 0)]


def test_publishes_of_other_sizes_and_property_values_stay_in_the_run() -> None:
    first = wire.PropertyList(b"\x90\x00\x01a\x01", 0)
    second = wire.PropertyList(b"\x90\x00\x03bcd\x01", 0)
    run = [publish(b"a", properties=first), publish(b"", properties=second), publish(b"ccc")]

    events, _ = scan(wire.octets_of(*run[:2]))

    messages = [each.message for each in run[:2]]
    assert events == [PublishRun(1, run[0].method_payload, messages, 0, 0)]
    events, _ = scan(wire.octets_of(*run))
    assert [len(whole(event).messages) for event in events] == [3], (
        "other properties make no difference"
    )
    headers = publish(b"d", properties=wire.PropertyList(b"\x20\x00\x00\x00\x00\x00", HAS_HEADERS))
    events, _ = scan(wire.octets_of(run[0], headers, run[1]))
    messages = [each.message for each in (run[0], headers, run[1])]
    assert events == [PublishRun(1, run[0].method_payload, messages, 0, 0)]


@pytest.mark.parametrize(
    ("octets", "checked_flags"),
    [
        (b"\x02\x00\x15amq.rabbitmq.reply-to", 1 << 9),
        (b"\x02\x00\x01r", 0),
        (b"\x01\x00\x019", 1 << 8),
        (b"\x00\x10\x01u", 1 << 4),
        (b"\x20\x00\x00\x00\x00\x08\x02CCA\x00\x00\x00\x00", 0x2000),
        (b"\x20\x00\x00\x00\x00\x09\x03BCCA\x00\x00\x00\x00", 0x2000),
        (b"\x06\x00\x16\x15amq.rabbitmq.reply-to\x01r", 0),
        (b"\x20\x00\x00\x00\x00\x0a\x01aS\x00\x00\x00\x03\x02CC", 0),
        (b"\x20\x00\x00\x00\x00\x0b\x01aF\x00\x00\x00\x04\x02CCV", 0),
    ],
    ids=[
        "direct reply-to",
        "reply-to",
        "expiration",
        "user-id",
        "CC",
        "BCC",
        "another property that contains the name of direct replies",
        "a value that contains CC",
        "CC in an inner table",
    ],
)
def test_a_property_that_the_broker_looks_at_begins_another_run(
    octets: bytes, checked_flags: int
) -> None:
    flags = HAS_HEADERS if octets[0] == 0x20 else HAS_EXPIRATION if octets[0] == 1 else 0
    checked = publish(b"b", properties=wire.PropertyList(octets, flags))

    events, _ = scan(wire.octets_of(publish(b"a"), checked, publish(b"c")))

    reported = [whole(event).checked_flags for event in events]
    assert reported == ([0, checked_flags, 0] if checked_flags else [0])


@pytest.mark.parametrize(
    "other",
    [
        publish(b"b", channel=2),
        publish(b"b", properties=wire.PropertyList(b"\x10\x00\x02", PERSISTENT)),
    ],
)
def test_a_publish_that_differs_begins_a_new_run(other: wire.Publish) -> None:
    first = publish(b"a", properties=wire.PropertyList(b"\x10\x00\x01", 0))

    events, _ = scan(wire.octets_of(first, other, first))

    assert [whole(event).messages for event in events] == [
        [each.message] for each in (first, other, first)
    ]
    assert [event.channel for event in events] == [1, other.channel, 1]


def test_publishes_with_frames_of_their_own_are_one_row() -> None:
    row = [publish(b"%d" % at, routing_key=b"key%d" % (at % 3)) for at in range(6)]

    events, left = scan(wire.octets_of(*row))

    payloads, messages = [[getattr(each, name) for each in row] for name in _OF_A_ROW]
    assert left == 0
    assert events == [PublishRow(1, payloads, messages, 0, 0)]


def test_a_frame_that_comes_again_stays_in_the_row() -> None:
    a, b = publish(b"a", routing_key=b"a"), publish(b"b", routing_key=b"b")

    events, _ = scan(wire.octets_of(a, a, b, b, b, a, b))

    assert [(type(event), len(whole(event).messages)) for event in events] == [(PublishRow, 7)]


def test_a_frame_that_comes_again_and_again_ends_a_row_and_begins_a_run() -> None:
    a, b = publish(b"a", routing_key=b"a"), publish(b"b", routing_key=b"b")
    many = REPEATS_MAX + 100

    events, _ = scan(wire.octets_of(a, *[b] * many, a, b))

    assert [(type(event), len(whole(event).messages)) for event in events] == [
        (PublishRow, 1 + REPEATS_MAX),
        (PublishRun, 100),
        (PublishRow, 2),
    ]


@pytest.mark.parametrize(
    "other",
    [
        publish(b"b", channel=2, routing_key=b"b"),
        publish(b"b", routing_key=b"b", properties=PERSISTENT_PRIORITY),
    ],
)
def test_a_row_is_of_one_channel_and_one_kind(other: wire.Publish) -> None:
    a, c = publish(b"a", routing_key=b"a"), publish(b"c", routing_key=b"c")

    events, _ = scan(wire.octets_of(a, other, a, c, other))

    assert [type(event) for event in events] == [PublishRun, PublishRun, PublishRow, PublishRun]


def test_a_run_reports_its_message_flags() -> None:
    events, _ = scan(wire.octets_of(publish(properties=PERSISTENT_PRIORITY)))

    run = whole(events[0])
    assert (run.checked_flags, run.shared_flags) == (0, PERSISTENT | HAS_PRIORITY)


def test_runs_of_acks_become_ranges() -> None:
    single = [1, 2, 3, 7, 8, 5]
    octets = b"".join(wire.ack_frame(4, tag, multiple=False) for tag in single)
    octets += wire.ack_frame(4, 20, multiple=True) + wire.ack_frame(4, 21, multiple=False)

    events, _ = scan(octets + wire.ack_frame(5, 22, multiple=False))

    assert events == [
        AckRun(4, [1, 3, 7, 8, 5, 5, 0, 20, 21, 21]),
        AckRun(5, [22, 22]),
    ]


def test_a_single_ack_after_a_multiple_one_does_not_extend_it() -> None:
    octets = wire.ack_frame(1, 5, multiple=False) + wire.ack_frame(1, 3, multiple=True)

    events, _ = scan(octets + wire.ack_frame(1, 6, multiple=False))

    assert events == [AckRun(1, [5, 5, 0, 3, 6, 6])], "tag 4 is not acknowledged"


def test_an_ack_of_tag_zero_or_beyond_all_tags_is_left_to_the_method_decoder() -> None:
    for tag in (0, 2**62, 2**64 - 1):
        events, _ = scan(wire.ack_frame(1, tag, multiple=True))
        assert [type(event) for event in events] == [MethodFrame]


def test_an_ack_between_publishes_ends_the_run_and_keeps_its_place() -> None:
    one = wire.octets_of(publish(b"a"))

    events, _ = scan(one + wire.ack_frame(1, 1, multiple=False) + one + wire.HEARTBEAT_FRAME + one)

    assert [type(event) for event in events] == [
        PublishRun,
        AckRun,
        PublishRun,
        HeartbeatFrame,
        PublishRun,
    ]


def test_a_body_larger_than_a_run_takes_comes_frame_by_frame() -> None:
    large = publish(b"x" * 101)

    events, left = scan(wire.octets_of(large), body_bytes_max=100)

    assert [type(event) for event in events] == [MethodFrame, ContentHeader, ContentBody]
    assert left == 0


def test_a_publish_that_is_not_whole_waits_and_is_not_told_twice() -> None:
    octets = wire.octets_of(publish(b"first"), publish(b"second"))

    for cut in range(len(wire.octets_of(publish(b"first"))), len(octets)):
        events, left = scan(octets[:cut])
        assert [len(whole(event).messages) for event in events] == [1]
        assert left == cut - len(wire.octets_of(publish(b"first")))


def test_frames_of_another_channel_inside_a_content_are_told_at_once() -> None:
    method, header_frame, body_frame = publish(b"hello").frames()

    for waiting in (method, method + header_frame):
        events, left = scan(waiting + wire.HEARTBEAT_FRAME)
        assert [type(each) for each in (events[0], events[-1])] == [MethodFrame, HeartbeatFrame]
        assert left == 0

    events, left = scan(method + header_frame + wire.ack_frame(2, 1, multiple=False) + body_frame)
    assert [type(event) for event in events] == [MethodFrame, ContentHeader, AckRun, ContentBody]


# Reading: errors


@pytest.mark.parametrize("kind", [0, 4, 5, 7, 9, 255])
def test_an_unknown_frame_type_is_a_frame_error(kind: int) -> None:
    octets = wire.HEARTBEAT_FRAME + wire.frame(kind, 3, b"abc") + wire.HEARTBEAT_FRAME

    events, left = scan(octets)

    assert events[0] == HeartbeatFrame(0)
    text = f'type {kind}, all octets = <<"abc">>: unknown_frame'
    assert events[1] == BrokenFrame(3, text)
    assert (len(events), left) == (2, 0)


def test_a_frame_larger_than_negotiated_is_a_frame_error_before_it_has_arrived() -> None:
    events, _ = scan(pack(">BHI", 3, 1, wire.FRAME_MAX + 1))

    size = wire.FRAME_MAX + 1
    cause = f"{{frame_too_large,{size},{wire.FRAME_MAX - 8}}}"
    assert events == [BrokenFrame(1, f"type 3, all octets = <<>>: {cause}")]


def test_a_frame_of_just_the_size_allowed_is_waited_for() -> None:
    events, left = scan(pack(">BHI", 3, 1, wire.FRAME_MAX))

    assert (events, left) == ([], 7)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_wrong_end_octet_is_a_frame_error(which: int, is_repeated: bool) -> None:
    """Also in a publish that equals the one before up to there."""
    frames = publish(b"hello").frames()
    frames[which] = frames[which][:-1] + b"\xcf"
    before = [wire.octets_of(publish(b"hello"))] if is_repeated else []

    events, left = scan(b"".join(before + frames))

    broken = events[-1]
    assert isinstance(broken, BrokenFrame)
    assert broken.channel == 1
    assert broken.text.startswith(f"type {which + 1}, ")
    assert broken.text.endswith(": {invalid_frame_end_marker,207}")
    assert [type(event) for event in events[:-1]].count(BrokenFrame) == 0
    assert left == 0


@pytest.mark.parametrize(
    "properties",
    [
        b"\x80\x00",  # content type announced, nothing there
        b"\x80\x00\x05abcd",  # one octet short
        b"\x80\x00\x01abc",  # octets left over
        b"\x20\x00\xff\xff\xff\xffabc",  # a table longer than the frame
        b"\x20\x00\x00\x00",  # half of a table's length
        b"\x00\x40\x00\x00\x00",  # half of a timestamp
        b"\x10\x00",  # no delivery mode
        b"\x00\x01\x00\x00",  # a second word of flags: no such properties
        b"\x00\x02",  # a property that does not exist
    ],
    ids=bytes.hex,
)
@pytest.mark.parametrize("content", [b"", b"hello"])
def test_a_content_header_that_does_not_hold_together_is_reported_by_itself(
    properties: bytes, content: bytes
) -> None:
    """Whether it is an error depends on the channel: on one that closes it is ignored."""
    octets = wire.octets_of(publish(content, properties=wire.PropertyList(properties, 0)))

    events, left = scan(octets)

    assert [type(event) for event in events] == [
        MethodFrame,
        ContentHeader,
        *[ContentBody] * bool(content),
    ]
    assert left == 0


@pytest.mark.parametrize(
    "payload",
    [
        b"\x00\x3c\x00\x28\x00\x00\x05e\x00",  # exchange passes the end
        b"\x00\x3c\x00\x28\x00\x00\x00\x05k\x00",  # routing key passes the end
        b"\x00\x3c\x00\x28\x00\x00\x00\x00\x00\x00",  # an octet left over
        b"\x00\x3c\x00\x28\x00\x00\x00\x00",  # no option bits
    ],
    ids=bytes.hex,
)
def test_a_malformed_publish_is_left_to_the_method_decoder(payload: bytes) -> None:
    content = publish(b"hello").frames()[1:]

    events, _ = scan(wire.frame(1, 1, payload) + b"".join(content))

    assert events[0] == MethodFrame(1, payload)


# Reading: properties


places = st.lists(st.integers(1, 60_000), max_size=8)


@given(frames=wire.frame_streams(), places=places, body_bytes_max=st.sampled_from([1, 300, 4_088]))
def test_any_split_tells_what_pamqp_tells(
    frames: list[bytes], places: list[int], body_bytes_max: int
) -> None:
    octets = b"".join(frames)

    assert statements(wire.split_at(octets, places), body_bytes_max) == statements_by_pamqp(octets)


@given(run=wire.publish_runs())
def test_one_octet_at_a_time_tells_the_same(run: list[wire.Publish]) -> None:
    small = [replace(each, body=each.body[:300], body_frame_bytes=200) for each in run]
    octets = wire.octets_of(*small)

    assert statements([octets[at : at + 1] for at in range(len(octets))]) == statements([octets])
    assert statements([octets]) == statements_by_pamqp(octets)


@given(octets=st.binary(max_size=300), body_bytes_max=st.integers(0, 5_000))
def test_garbage_never_raises_and_never_moves_back(octets: bytes, body_bytes_max: int) -> None:
    events, left = scan(octets, body_bytes_max)

    assert 0 <= left <= len(octets)
    assert not any(isinstance(event, BrokenFrame) for event in events[:-1])


@given(
    frames=wire.frame_streams(),
    flips=st.lists(st.tuples(st.integers(0, 60_000), st.integers(1, 255)), max_size=5),
    places=places,
)
def test_damage_never_raises_and_an_error_is_the_last_event(
    frames: list[bytes], flips: list[tuple[int, int]], places: list[int]
) -> None:
    octets = bytearray(b"".join(frames))
    for place, mask in flips:
        if octets:
            octets[place % len(octets)] ^= mask
    scanner = FrameScanner(wire.FRAME_MAX, wire.BODY_MAX)
    events: list[Event] = []
    rest = b""
    for piece in wire.split_at(bytes(octets), places):
        data = rest + piece
        at = scanner.scan(data, 0, len(data), events)
        rest = data[at:]
        if any(isinstance(event, BrokenFrame) for event in events):
            break

    assert not any(isinstance(event, BrokenFrame) for event in events[:-1])


def test_the_rest_is_never_more_than_one_publish() -> None:
    """The read buffer has room for three frames behind what it reads at a time."""
    value = bytes(wire.BODY_MAX - 25)
    filler = pack(">I", wire.BODY_MAX - 18) + b"\x01ax" + pack(">I", len(value)) + value
    largest = publish(b"x" * wire.BODY_MAX, properties=wire.PropertyList(b"\x20\x00" + filler, 2))
    octets = wire.octets_of(largest)

    _, left = scan(octets[:-1])

    assert left == len(octets) - 1 <= 3 * (wire.FRAME_MAX + 8)
    assert whole(scan(octets)[0][0]).messages == [largest.message]


def test_a_publish_whose_headers_cannot_be_decoded_is_in_no_run() -> None:
    def with_headers(entries: bytes) -> bytes:
        table = pack(">I", len(entries)) + entries
        return wire.octets_of(publish(b"b", properties=wire.PropertyList(b"\x20\x00" + table, 2)))

    sound, broken = with_headers(b"\x01at\x01"), with_headers(b"\x01aZ\x01")

    before, *frames, behind = scan(sound * 2 + broken * 2 + sound)[0]

    assert [len(whole(run).messages) for run in (before, behind)] == [2, 1]
    assert [type(event) for event in frames] == [MethodFrame, ContentHeader, ContentBody] * 2


def test_a_publish_behind_a_frame_error_is_not_compared_with_one_of_another_buffer() -> None:
    scanner = FrameScanner(wire.FRAME_MAX, wire.BODY_MAX)
    first, other = publish(b"a"), publish(b"b", routing_key=b"z")
    events: list[Event] = []
    octets = wire.octets_of(first) + wire.frame(99, 1, b"bad")
    scanner.scan(octets, 0, len(octets), events)
    assert [type(event) for event in events] == [PublishRun, BrokenFrame]

    octets = wire.octets_of(other)
    scanner.scan(octets, 0, len(octets), events)

    assert events[2:] == [PublishRun(1, other.method_payload, [other.message], 0, 0)]
