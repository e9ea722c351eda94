"""Frames out: a kernel that turns a run of messages into the octets of their frames.

The mirror of `_scanning_py`: messages of one route, with the same properties and length, have
the same octets up to the body but for the delivery tag, so they are made once and one
comparison tells that they fit the next message. Compiled as `_writing_c`; `framing.py`
chooses. A property header larger than frame_max goes out as one long frame: the protocol
cannot split it.

Source: AMQP 0-9-1 specification, section 4.2 (frames) and 4.2.6 (content).
"""

from __future__ import annotations

from array import array
from mmap import mmap
from struct import pack

COMPILED = __name__.endswith("_c")

ReadableBuffer = bytes | memoryview | mmap
Octets = bytes | memoryview

_FRAMES_BYTES = 64  # around one message: more than all its frames can need, but for split bodies


def encode_deliveries(
    messages: list[bytes],
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    frame_max: int,
) -> bytes:
    """Return the octets of one `basic.deliver` with its content per message.

    Args:
        messages: Messages as they stand in ring and log (docs/log-format.md).
        channel: Channel number, 1 to 65535.
        consumer_tag: Octets of the consumer tag, at most 255.
        first_tag: Delivery tag of the first message; the others follow without a gap.
        redelivered: Whether the flag is set; the same for the whole run.
        frame_max: Largest frame in octets, framing included.

    Returns:
        One bytes object, ready to be written.
    """
    count = len(messages)
    tags = pack(f">{count}Q", *range(first_tag, first_tag + count))
    return _encode(
        messages,
        channel,
        b"\x00\x3c\x00\x3c" + pack("B", len(consumer_tag)) + consumer_tag,
        tags,
        pack("B", redelivered),
        b"",
        frame_max,
    )


def encode_run(
    buffer: ReadableBuffer,
    positions: array[int],
    lengths: array[int],
    start: int,
    stop: int,
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    frame_max: int,
) -> bytearray:
    """Return what `encode_deliveries` does, for messages that lie in a buffer.

    No message becomes an object: its octets go from the buffer, which may be a mapping of a
    file, to what is sent.

    Args:
        buffer: Where the messages lie.
        positions: Where each begins, an `array("I")`.
        lengths: How long each is, an `array("I")`.
        start: The first to be encoded.
        stop: The end of what is encoded, exclusive.
        channel: Channel number, 1 to 65535.
        consumer_tag: Octets of the consumer tag, at most 255.
        first_tag: Delivery tag of the first message; the others follow without a gap.
        redelivered: Whether the flag is set; the same for the whole run.
        frame_max: Largest frame in octets, framing included.

    Raises:
        ValueError: A message is not inside the buffer, or its lengths do not add up.
    """
    view = memoryview(buffer)
    at_places, size_places = positions, lengths
    if start < 0 or stop > len(positions) or stop > len(lengths):
        raise ValueError(f"[{start}, {stop}) is not inside {len(positions)} messages")
    head = b"\x00\x3c\x00\x3c" + pack("B", len(consumer_tag)) + consumer_tag
    flag = pack("B", redelivered)
    body_bytes_max = frame_max - 8
    room = 0
    view_bytes = len(view)
    for index in range(start, stop):
        size = size_places[index]
        if at_places[index] + size > view_bytes:
            raise ValueError(f"message {index} is not inside {view_bytes} bytes")
        room += size + len(head) + _FRAMES_BYTES + size // body_bytes_max * 8
    encoded = bytearray(room)
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        octets = octets_of(buffer)  # type: ignore[name-defined]  # noqa: F821 - in the .pxd
    else:
        octets = view
    target = encoded
    to = 0
    tag = first_tag
    model = prefix_bytes = 0
    message_bytes = -1
    before = behind = b""
    for index in range(start, stop):
        at = at_places[index]
        size = size_places[index]
        if size != message_bytes or not _is_same(octets, at, model, prefix_bytes):
            prefix_bytes = _body_position(octets, at, size)
            before, behind = _frames(
                octets[at : at + prefix_bytes] if COMPILED else bytes(view[at : at + prefix_bytes]),
                size - prefix_bytes,
                channel,
                head,
                8,
                flag,
                b"",
                body_bytes_max,
            )
            model = at
            message_bytes = size
        to = _put(target, to, before, 0, len(before))
        to = _put_tag(target, to, tag)
        tag += 1
        to = _put(target, to, behind, 0, len(behind))
        at += prefix_bytes
        size -= prefix_bytes
        if size > body_bytes_max:
            to = _put_split(target, to, octets, at, size, channel, body_bytes_max)
        elif size != 0:
            to = _put(target, to, octets, at, size)
            target[to] = 0xCE
            to += 1
    del encoded[to:]
    return encoded


def encode_content(
    message: bytes, channel: int, before_route: bytes, after_route: bytes, frame_max: int
) -> bytes:
    """Return the octets of one method that carries `message`, and of its content.

    Args:
        message: The message; its exchange and routing key stand between the two parts.
        channel: Channel number.
        before_route: Method payload up to the exchange name.
        after_route: Method payload after the routing key.
        frame_max: Largest frame in octets, framing included.
    """
    return _encode([message], channel, before_route, b"", b"", after_route, frame_max)


def _encode(
    messages: list[bytes],
    channel: int,
    method_head: bytes,
    tags: bytes,
    before_route: bytes,
    after_route: bytes,
    frame_max: int,
) -> bytes:
    parts: list[bytes] = []
    prefix = b""
    prefix_bytes = 0
    message_bytes = -1
    start = b""
    middle = b""
    body_bytes_max = frame_max - 8
    tag_bytes = 8 if tags else 0
    tag_at = 0
    tag_octets = tags
    for message in messages:
        size = len(message)
        data = message
        if size != message_bytes or not message.startswith(prefix):
            prefix_bytes = _prefix_bytes(data)
            prefix = message[:prefix_bytes]
            message_bytes = size
            start, middle = _frames(
                prefix,
                size - prefix_bytes,
                channel,
                method_head,
                tag_bytes,
                before_route,
                after_route,
                body_bytes_max,
            )
        parts.append(start)
        if tag_bytes != 0:
            parts.append(tag_octets[tag_at : tag_at + 8])
            tag_at += 8
        parts.append(middle)
        if size - prefix_bytes > body_bytes_max:
            _split_body(message, prefix_bytes, channel, body_bytes_max, parts)
        elif size != prefix_bytes:
            parts.append(data[prefix_bytes:size])
            parts.append(b"\xce")
    return b"".join(parts)


def _frames(
    prefix: bytes,
    body_bytes: int,
    channel: int,
    method_head: bytes,
    tag_bytes: int,
    before_route: bytes,
    after_route: bytes,
    body_bytes_max: int,
) -> tuple[bytes, bytes]:
    """Return what stands before the tag of a message, and between tag and body."""
    data = prefix
    route_end = 2 + data[1]
    route_end = route_end + 1 + data[route_end]
    properties_bytes = len(prefix) - route_end - 4
    method_bytes = len(method_head) + tag_bytes + len(before_route) + route_end - 1
    start = pack(">BHI", 1, channel, method_bytes + len(after_route)) + method_head
    is_one_frame = 0 < body_bytes <= body_bytes_max
    body_start = pack(">BBHI", 0xCE, 3, channel, body_bytes) if is_one_frame else b"\xce"
    middle = b"".join(
        (
            before_route,
            prefix[1:route_end],
            after_route,
            pack(">BBHIIQ", 0xCE, 2, channel, 12 + properties_bytes, 60 << 16, body_bytes),
            prefix[route_end + 4 :],
            body_start,
        )
    )
    return start, middle


def _prefix_bytes(octets: bytes) -> int:
    """Return where the body of a message begins; the message is known to be one."""
    route_end = 2 + octets[1]
    route_end = route_end + 1 + octets[route_end]
    properties_bytes = octets[route_end + 3]
    properties_bytes = properties_bytes << 8 | octets[route_end + 2]
    properties_bytes = properties_bytes << 8 | octets[route_end + 1]
    properties_bytes = properties_bytes << 8 | octets[route_end]
    return route_end + 4 + properties_bytes


def _body_position(octets: Octets, at: int, size: int) -> int:
    """Return where the body begins in a message at `at`; every length is proved first."""
    if size >= 7:
        place = 2 + octets[at + 1]
        if place + 5 <= size:
            place += 5 + octets[at + place]
            if place <= size:
                properties_bytes = octets[at + place - 1]
                properties_bytes = properties_bytes << 8 | octets[at + place - 2]
                properties_bytes = properties_bytes << 8 | octets[at + place - 3]
                properties_bytes = properties_bytes << 8 | octets[at + place - 4]
                place += properties_bytes
                if place <= size:
                    return place
    raise ValueError(f"message of {size} bytes ends inside its route or properties")


def _is_same(octets: Octets, at: int, other: int, size: int) -> bool:
    """Tell whether the same `size` octets stand at two places."""
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        return compare_octets(  # type: ignore[name-defined, no-any-return]  # noqa: F821 - .pxd
            octets, at, other, size
        )
    return octets[at : at + size] == octets[other : other + size]


def _put(target: bytearray, to: int, octets: Octets, at: int, size: int) -> int:
    """Copy `size` octets; return the place behind them."""
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        copy_octets(target, to, octets, at, size)  # type: ignore[name-defined]  # noqa: F821
    else:
        target[to : to + size] = octets[at : at + size]
    return to + size


def _put_tag(target: bytearray, to: int, tag: int) -> int:
    """Write a delivery tag; return the place behind it."""
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        for place in range(8):
            target[to + place] = tag >> (56 - 8 * place) & 255
    else:
        target[to : to + 8] = tag.to_bytes(8, "big")
    return to + 8


def _put_split(
    target: bytearray,
    to: int,
    octets: Octets,
    at: int,
    size: int,
    channel: int,
    body_bytes_max: int,
) -> int:
    """Write body frames of at most `body_bytes_max`; return the place behind them."""
    while size > 0:
        part = min(size, body_bytes_max)
        to = _put(target, to, pack(">BHI", 3, channel, part), 0, 7)
        to = _put(target, to, octets, at, part)
        target[to] = 0xCE
        to += 1
        at += part
        size -= part
    return to


def _split_body(
    message: bytes, at: int, channel: int, body_bytes_max: int, parts: list[bytes]
) -> None:
    """Append body frames of at most `body_bytes_max`; the header's end octet is written."""
    end = len(message)
    while at < end:
        stop = min(at + body_bytes_max, end)
        parts.append(pack(">BHI", 3, channel, stop - at))
        parts.append(message[at:stop])
        parts.append(b"\xce")
        at = stop
