"""Frames out: a kernel that turns a run of messages into the octets of their frames.

The mirror of `_scanning_py`: messages of one route, with the same properties and length, have
the same octets up to the body but for the delivery tag, so they are made once and one
comparison tells that they fit the next message. Compiled as `_writing_c`; `framing.py`
chooses. A property header larger than frame_max goes out as one long frame: the protocol
cannot split it.

Source: AMQP 0-9-1 specification, section 4.2 (frames) and 4.2.6 (content).
"""

from __future__ import annotations

from struct import pack


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
            route_end = 2 + data[1]
            route_end = route_end + 1 + data[route_end]
            properties_bytes = data[route_end + 3]
            properties_bytes = properties_bytes << 8 | data[route_end + 2]
            properties_bytes = properties_bytes << 8 | data[route_end + 1]
            properties_bytes = properties_bytes << 8 | data[route_end]
            prefix_bytes = route_end + 4 + properties_bytes
            prefix = message[:prefix_bytes]
            message_bytes = size
            body_bytes = size - prefix_bytes
            route = message[1:route_end]
            method_bytes = (
                len(method_head) + tag_bytes + len(before_route) + len(route) + len(after_route)
            )
            start = pack(">BHI", 1, channel, method_bytes) + method_head
            middle = b"".join(
                (
                    before_route,
                    route,
                    after_route,
                    pack(">BBHIIQ", 0xCE, 2, channel, 12 + properties_bytes, 60 << 16, body_bytes),
                    message[route_end + 4 : prefix_bytes],
                    b"\xce" if body_bytes == 0 else pack(">BBHI", 0xCE, 3, channel, body_bytes),
                )
            )
            if body_bytes > body_bytes_max:
                middle = middle[: len(middle) - 7]
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
