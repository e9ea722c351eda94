"""AMQP octets by hand: frames, publishes and property lists, built without the code under test.

Streams are built as tuples of frames, so that a test knows where each frame begins.
"""

from dataclasses import dataclass
from itertools import pairwise
from struct import pack

from hypothesis import strategies as st

from appendlog.layout.message import encode_message

FRAME_MAX = 4096
BODY_MAX = FRAME_MAX - 8


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def short_string(value: bytes) -> bytes:
    return pack("B", len(value)) + value


HEARTBEAT_FRAME = frame(8, 0, b"")


@dataclass(frozen=True)
class PropertyList:
    """Property flags and values as on the wire, with what the message flags say of them."""

    octets: bytes
    message_flags: int


@dataclass(frozen=True)
class Publish:
    """One `basic.publish` with its content, and the frames that it is sent in."""

    channel: int
    exchange: bytes
    routing_key: bytes
    options: int
    properties: PropertyList
    body: bytes
    body_frame_bytes: int

    @property
    def method_payload(self) -> bytes:
        return (
            b"\x00\x3c\x00\x28\x00\x00"
            + short_string(self.exchange)
            + short_string(self.routing_key)
            + pack("B", self.options)
        )

    @property
    def message(self) -> bytes:
        """What ring and log hold of it."""
        flags, properties = self.properties.message_flags, self.properties.octets
        return encode_message(flags, self.exchange, self.routing_key, properties, self.body)

    def frames(self) -> list[bytes]:
        header = pack(">HHQ", 60, 0, len(self.body)) + self.properties.octets
        edges = [*range(0, len(self.body), self.body_frame_bytes), len(self.body)]
        return [
            frame(1, self.channel, self.method_payload),
            frame(2, self.channel, header),
            *(frame(3, self.channel, self.body[low:high]) for low, high in pairwise(edges)),
        ]


def octets_of(*publishes: Publish) -> bytes:
    return b"".join(each for publish in publishes for each in publish.frames())


def ack_frame(channel: int, tag: int, *, multiple: bool) -> bytes:
    return frame(1, channel, b"\x00\x3c\x00\x50" + pack(">QB", tag, multiple))


def split_at(octets: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(octets), *(place for place in places if place < len(octets))})
    return [octets[low:high] for low, high in pairwise(edges)]


_text = st.text(st.characters(codec="ascii", min_codepoint=32), max_size=12).map(str.encode)
_short = _text | st.sampled_from([b"", b"x" * 255])
_tables = st.sampled_from(
    [
        b"",
        b"\x01at\x01",
        b"\x03keyS\x00\x00\x00\x05value\x01nI\x00\x00\x00\x07",
        b"\x06nestedF\x00\x00\x00\x04\x01at\x00",
        b"\x04longS\x00\x00\x03\x20" + b"\xce" * 800,
        b"\x02CCA\x00\x00\x00\x00",
        b"\x01at\x01\x03BCCA\x00\x00\x00\x00",
    ]
).map(lambda entries: pack(">I", len(entries)) + entries)
_octet = st.integers(0, 255).map(lambda value: pack("B", value))

_any_flags = st.integers(0, 0x3FFF).map(lambda bits: bits << 2)

# From bit 15 down, as in the basic class: what the value of each property looks like.
_PROPERTIES: list[tuple[int, st.SearchStrategy[bytes]]] = [
    (15, _short.map(short_string)),
    (14, _short.map(short_string)),
    (13, _tables),
    (12, st.sampled_from([b"\x01", b"\x02"]) | _octet),
    (11, _octet),
    (10, _short.map(short_string)),
    (9, (_short | st.just(b"amq.rabbitmq.reply-to")).map(short_string)),
    (8, _short.map(short_string)),
    (7, _short.map(short_string)),
    (6, st.integers(0, 2**31).map(lambda value: pack(">Q", value))),
    (5, _short.map(short_string)),
    (4, _short.map(short_string)),
    (3, _short.map(short_string)),
    (2, _short.map(short_string)),
]


@st.composite
def property_lists(draw: st.DrawFn) -> PropertyList:
    present = draw(st.sampled_from([0, 0x1000, 0x9800, 0xFFFC]) | _any_flags)
    values = {bit: draw(value) for bit, value in _PROPERTIES if present >> bit & 1}
    persistent = values.get(12) == b"\x02"
    message_flags = persistent | (13 in values) << 1 | (8 in values) << 2 | (11 in values) << 3
    return PropertyList(pack(">H", present) + b"".join(values.values()), message_flags)


channels = st.integers(1, 3) | st.just(65_535)
bodies = st.binary(max_size=40) | st.builds(
    lambda size, octet: bytes([octet]) * size,
    st.integers(0, 9_000) | st.sampled_from([BODY_MAX - 1, BODY_MAX, BODY_MAX + 1]),
    st.sampled_from([0, 1, 0xCE, 0xFF]),
)
publishes = st.builds(
    Publish,
    channel=channels,
    exchange=_short,
    routing_key=_short,
    options=st.integers(0, 3),
    properties=property_lists(),
    body=bodies,
    body_frame_bytes=st.just(BODY_MAX) | st.integers(1_000, BODY_MAX),
)


@st.composite
def publish_runs(draw: st.DrawFn) -> list[Publish]:
    """Neighbours that a client would send: alike, or differing in one thing."""
    first = draw(publishes)
    run = [first]
    for _ in range(draw(st.integers(0, 5))):
        match draw(st.integers(0, 5)):
            case 0:
                change = {"body": draw(bodies)}
            case 1:
                change = {"properties": draw(property_lists())}
            case 2:
                change = {"channel": draw(channels)}
            case 3:
                change = {"routing_key": draw(_short)}
            case _:
                change = {"body": bytes(reversed(run[-1].body))}
        run.append(Publish(**{**run[-1].__dict__, **change}))
    return run


tags = st.integers(0, 40) | st.sampled_from([2**32, 2**62 - 1, 2**62, 2**63, 2**64 - 1])


@st.composite
def ack_runs(draw: st.DrawFn) -> list[bytes]:
    channel, first = draw(channels), draw(tags)
    steps = draw(st.lists(st.sampled_from([0, 1, 1, 1, 2, 7]), max_size=8))
    frames, tag = [], first
    for step in steps:
        frames.append(ack_frame(channel, tag, multiple=draw(st.booleans()) and step > 1))
        tag = (tag + step) % 2**64
    return frames


other_methods = st.builds(
    frame,
    st.just(1),
    channels | st.just(0),
    st.sampled_from(
        [
            b"\x00\x14\x00\x28\x00\xc8\x00\x00\x00\x00\x00",
            b"\x00\x3c\x00\x46\x00\x00\x01q\x00",
            b"\x00\x3c\x00\x78" + bytes(9),
            b"\x00\x0a\x00\x33",
        ]
    ),
)


@st.composite
def frame_streams(draw: st.DrawFn) -> list[bytes]:
    """Frames that keep the rules: each channel's contents are whole, channels may interleave."""
    frames: list[bytes] = []
    for _ in range(draw(st.integers(1, 6))):
        match draw(st.integers(0, 5)):
            case 0 | 1 | 2:
                frames += [each for publish in draw(publish_runs()) for each in publish.frames()]
            case 3:
                frames += draw(ack_runs())
            case 4:
                frames.append(draw(other_methods | st.just(HEARTBEAT_FRAME)))
            case _:
                first, second = draw(publishes), draw(publishes)
                if first.channel != second.channel:
                    frames += draw(interleaved(first.frames(), second.frames()))
    return frames


@st.composite
def interleaved(draw: st.DrawFn, first: list[bytes], second: list[bytes]) -> list[bytes]:
    first, second, merged = list(first), list(second), []
    while first and second:
        merged.append((first if draw(st.booleans()) else second).pop(0))
    return merged + first + second
