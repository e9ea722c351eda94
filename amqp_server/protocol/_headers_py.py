"""Parses messages and their headers in octets, for the kernels that write and filter.

A delivered message of a stream gets its offset as a header. Entries are skipped, not decoded. The
build compiles it as `_headers_c`. A log may hold headers that nobody could decode, from before
publishes were checked; so this module checks every length before it reads octets.

Source: AMQP 0-9-1 specification, section 4.2.5.5 (field tables), and RabbitMQ's errata for the
kinds.
"""

from __future__ import annotations

from struct import pack

_CONTENT_TYPE = 1 << 15
_CONTENT_ENCODING = 1 << 14
_HEADERS = 1 << 13
_DELIVERY_MODE = 1 << 12
_PRIORITY = 1 << 11
_CORRELATION_ID = 1 << 10
_REPLY_TO = 1 << 9
_DEPTH_MAX = 64  # as in `field_values`, where it bounds what a table is decoded to

_OFFSET_KEY = b"\x0fx-stream-offset"
_CC = b"\x02CC"
_BCC = b"\x03BCC"
OFFSET_ENTRY = _OFFSET_KEY + b"l"
_OFFSET_ENTRY_BYTES = 25  # key, kind, value


def split_for_offset(properties: bytes) -> tuple[bytes, bytes]:
    """Return the octets before and after the offset in properties that get it as a header.

    The header `x-stream-offset` (kind `l`) becomes the last of those that can be decoded; others of
    that name are removed. All other octets stay unchanged, also those behind the first entry that
    cannot be decoded, as in `amqp_server.broker.transfers.message_headers`.

    Args:
        properties: One word of flags and the property list.

    Raises:
        ValueError: The list ends before or inside the headers.
    """
    size = len(properties)
    data = properties
    at = headers_position(data, 0, size)
    flags = data[0] << 8 | data[1]
    entries = b""
    behind = at
    unreadable_bytes = 0
    if flags & _HEADERS:
        end = at + 4 + u32(data, at)
        behind = readable_end(data, at + 4, end)
        unreadable_bytes = end - behind
        entries = other_entries(properties[at + 4 : behind])
    before = b"".join(
        (
            pack(">H", flags | _HEADERS),
            properties[2:at],
            pack(">I", len(entries) + _OFFSET_ENTRY_BYTES + unreadable_bytes),
            entries,
            OFFSET_ENTRY,
        )
    )
    return before, properties[behind:size]


def body_position(octets: bytes, at: int, size: int) -> int:
    """Return the distance from the start of a message at `at` to its body.

    Raises:
        ValueError: The lengths in the message are inconsistent.
    """
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


def with_reply_to(message: bytes, before: bytes, after: bytes) -> bytes | None:
    """Return a message with another reply-to, or None if its reply-to is not `before`.

    Args:
        message: Its properties were checked by the scanner.
        before: The reply-to to replace, with its octet of length.
        after: What comes in its place, likewise.

    Raises:
        ValueError: The lengths in the message are inconsistent.
    """
    size = len(message)
    data = message
    end = body_position(data, 0, size)
    start = 2 + data[1]
    start += 5 + data[start]
    at = headers_position(data, start, end)
    flags = data[start] << 8 | data[start + 1]
    if not flags & _REPLY_TO:
        return None
    if flags & _HEADERS:
        at += 4 + u32(data, at)
    if flags & _DELIVERY_MODE:
        at += 1
    if flags & _PRIORITY:
        at += 1
    if flags & _CORRELATION_ID:
        at = short_string_end(data, at, end)
    behind = at + len(before)
    if behind > end or message[at:behind] != before:
        return None
    properties_bytes = end - start + len(after) - len(before)
    return b"".join(
        (
            message[: start - 4],
            pack("<I", properties_bytes),
            message[start:at],
            after,
            message[behind:],
        )
    )


def headers_position(data: bytes, start: int, end: int) -> int:
    """Return where the headers start, or would start, in the properties [start, end) of data.

    Raises:
        ValueError: The list ends before or inside the headers.
    """
    at = start + 2
    if at <= end:
        flags = data[start] << 8 | data[start + 1]
        if flags & _CONTENT_TYPE:
            at = short_string_end(data, at, end)
        if flags & _CONTENT_ENCODING:
            at = short_string_end(data, at, end)
        if not flags & _HEADERS:
            if at <= end:
                return at
        elif at + 4 <= end and u32(data, at) <= end - at - 4:
            return at
    raise ValueError(f"property list of {end - start} bytes ends inside its headers")


def short_string_end(data: bytes | bytearray, at: int, end: int) -> int:
    """Return where a short string ends, perhaps above `end`; reads only octets below `end`."""
    return at + 1 + data[at] if at < end else end + 1


def readable_end(data: bytes | bytearray, at: int, end: int) -> int:
    """Return where the first entry of the table [at, end) begins that cannot be decoded, or `end`.

    An entry cannot be decoded if it passes the end, has a value of an unknown kind, or nests deeper
    than 64 levels: where it ends, and so where the next one begins, is not known.
    """
    entry = at
    while 0 <= at < end:
        entry = at
        at = value_end(data, short_string_end(data, at, end), end, 1)
    return entry if at < 0 else at


def copies_named(data: bytes | bytearray, at: int, end: int) -> int:
    """Return 1 if one of the entries [at, end) of a table is named `CC` or `BCC`, or else 0.

    Returns:
        1 or 0; -1 if an entry cannot be decoded.
    """
    named = 0
    while 0 <= at < end:
        if has_key(data, at, end, _CC) or has_key(data, at, end, _BCC):
            named = 1
        at = value_end(data, short_string_end(data, at, end), end, 1)
    return named if at >= 0 else -1


def count_offsets(data: bytes, at: int, end: int) -> int:
    """Return the number of offset entries among the entries [at, end), which can be decoded."""
    count = 0
    while at < end:
        entry = at
        at = value_end(data, short_string_end(data, at, end), end, 1)
        count += has_key(data, entry, end, _OFFSET_KEY)
    return count


def other_entries(entries: bytes) -> bytes:
    """Return the entries of a table, which can be decoded, without offset entries."""
    data = entries
    end = len(entries)
    if count_offsets(data, 0, end) == 0:
        return entries
    kept = []
    start = at = 0
    while at < end:
        entry = at
        at = value_end(data, short_string_end(data, at, end), end, 1)
        if has_key(data, entry, end, _OFFSET_KEY):
            kept.append(entries[start:entry])
            start = at
    kept.append(entries[start:end])
    return b"".join(kept)


def has_key(data: bytes | bytearray, at: int, end: int, key: bytes) -> bool:
    """Return whether the entry at `at`, below `end`, has this key, its octet of length included."""
    key_bytes = len(key)
    return data[at] + 1 == key_bytes <= end - at and data[at : at + key_bytes] == key


def value_end(data: bytes | bytearray, at: int, end: int, depth: int) -> int:
    """Return where a value ends; -1 if it does not end in [at, end) or its kind is unknown."""
    if at >= end:
        return -1
    kind = data[at]
    at += 1
    if kind == 0x53 or kind == 0x78:  # S, x
        if end - at < 4:
            return -1
        at += 4 + u32(data, at)
    elif kind == 0x46 or kind == 0x41:  # F, A
        if end - at < 4 or depth >= _DEPTH_MAX:
            return -1
        stop = at + 4 + u32(data, at)
        if stop > end:
            return -1
        at += 4
        while 0 <= at < stop:
            if kind == 0x46:
                at = short_string_end(data, at, stop)
            at = value_end(data, at, stop, depth + 1)
        return at
    elif kind == 0x62 or kind == 0x42 or kind == 0x74:  # b, B, t
        at += 1
    elif kind == 0x73 or kind == 0x75:  # s, u
        at += 2
    elif kind == 0x49 or kind == 0x69 or kind == 0x66:  # I, i, f
        at += 4
    elif kind == 0x44:  # D
        at += 5
    elif kind == 0x6C or kind == 0x4C or kind == 0x54 or kind == 0x64:  # l, L, T, d
        at += 8
    elif kind != 0x56:  # V
        return -1
    return at if at <= end else -1


def u32(data: bytes | bytearray, at: int) -> int:
    """Return a big-endian u32; the caller has checked that four octets exist."""
    value = data[at]
    value = value << 8 | data[at + 1]
    value = value << 8 | data[at + 2]
    return value << 8 | data[at + 3]
