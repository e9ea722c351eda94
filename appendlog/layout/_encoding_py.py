"""Encoding kernel: makes one chunk from its messages, with its CRC.

One source, two builds. Cython compiles it under the name `_encoding_c` (types in
`_encoding_c.pxd`): there, indexing `bytes` is pointer access. Each message is copied once, to its
place in the chunk. The stores that differ are in `_memory_py` and `_memory_c.pxd`. Both builds must
give the same result for any messages: tests/parity checks it.

Pure: no I/O, no logging, no state. Layouts: docs/log-format.md, sections 3 to 5.
"""

from __future__ import annotations

from struct import Struct

from appendlog.layout import _memory_py as memory
from appendlog.layout.crc import crc32c

_CHUNK_TAIL = Struct("<IBBHIIQIIQqqqqQ")
_CHUNK_FRONT = Struct("<II")
_CHUNK_HEADER_BYTES = 88
_MAGIC = 0x434C5141
_ANNOTATED = 12  # HAS_EXPIRATION | HAS_PRIORITY
_PERSISTENT = 1
_CONTENT_TYPE = 0x8000
_CONTENT_ENCODING = 0x4000
_HEADERS = 0x2000
_DELIVERY_MODE = 0x1000
_PRIORITY = 0x0800
_CORRELATION_ID = 0x0400
_REPLY_TO = 0x0200
_EXPIRATION = 0x0100
_NEITHER = (-1, -1)
_EXPIRATION_MILLISECONDS_MAX = 10**12
_EXPIRATION_DIGITS_MAX = 13
_U32_MAX = 0xFFFFFFFF
_OFFSET_MAX = (1 << 62) - 1
_MILLISECOND_NS = 1_000_000


def encode_chunk(
    messages: list[bytes],
    base_offset: int,
    offset_deltas: list[int] | None,
    first_timestamp_ns: int,
    timestamp_deltas_ns: list[int] | None,
    salt: int,
    transaction_id: bytes = b"",
) -> bytes:
    """Encode one data chunk, with its CRC. See `appendlog.layout.records`."""
    count = len(messages)
    _check_sizes(count, base_offset, offset_deltas, timestamp_deltas_ns, transaction_id)
    to = chunk_bytes = _CHUNK_HEADER_BYTES + len(transaction_id)
    for message in messages:
        chunk_bytes += 12 + len(message)
    chunk = memory.unwritten(chunk_bytes)
    target = memory.target_of(chunk)
    prefix = b""
    prefix_bytes = transient = transient_count = body_bytes = priority_bitmap = 0
    expiration_ns = -1
    min_expiry_ns = max_expiry_ns = last_timestamp_delta = 0
    previous_delta = -1
    for index in range(count):
        message = messages[index]
        size = len(message) + 8
        # Publishers repeat themselves: a message that begins with the same flags, route and
        # properties as the one before has the same body position, and is not parsed again.
        if prefix_bytes == 0 or not message.startswith(prefix):
            prefix_bytes = _body_position(message, len(message))
            prefix = message[:prefix_bytes]
            flags = prefix[0]
            transient = 0 if flags & _PERSISTENT else 1
            expiration_ns = -1
            if flags & _ANNOTATED:
                priority, expiration = priority_and_expiration(
                    prefix, _properties_position(prefix), prefix_bytes
                )
                if priority >= 0 and flags & 8:
                    priority_bitmap |= _bit(priority)
                if expiration >= 0 and flags & 4:
                    expiration_ns = expiration * _MILLISECOND_NS
        transient_count += transient
        body_bytes += size - 8 - prefix_bytes
        offset_delta = index if offset_deltas is None else offset_deltas[index]
        timestamp_delta = 0 if timestamp_deltas_ns is None else timestamp_deltas_ns[index]
        if (
            offset_delta <= previous_delta
            or offset_delta > _U32_MAX
            or timestamp_delta < 0
            or size > _U32_MAX
        ):
            raise ValueError(
                f"record {index}: offset delta {offset_delta} after {previous_delta}, {size} bytes"
            )
        previous_delta = offset_delta
        if timestamp_delta > _U32_MAX:
            timestamp_delta = _U32_MAX
        if timestamp_delta > last_timestamp_delta:
            last_timestamp_delta = timestamp_delta
        if expiration_ns >= 0:
            expiry_ns = first_timestamp_ns + timestamp_delta + expiration_ns
            if min_expiry_ns == 0 or expiry_ns < min_expiry_ns:
                min_expiry_ns = expiry_ns
            if expiry_ns > max_expiry_ns:
                max_expiry_ns = expiry_ns
        if to + size + 4 > chunk_bytes:  # pragma: no cover - another thread would have to do it
            raise ValueError("messages changed while they were encoded")
        memory.put_record(target, to, size, offset_delta, timestamp_delta, message)
        to += size + 4
    tail = _CHUNK_TAIL.pack(
        to - 12,
        1,
        0,
        1 if transaction_id else 0,
        salt,
        count,
        base_offset,
        previous_delta,
        transient_count,
        body_bytes,
        first_timestamp_ns,
        first_timestamp_ns + last_timestamp_delta,
        min_expiry_ns,
        max_expiry_ns,
        priority_bitmap,
    )
    tail += transaction_id
    memory.copy_octets(target, 8, tail, 0, len(tail))
    front = _CHUNK_FRONT.pack(_MAGIC, crc32c(memoryview(chunk)[8:]))
    memory.copy_octets(target, 0, front, 0, 8)
    return memory.written(chunk)


def encode_payloads(
    payloads: list[bytes], prefix: bytes, base_offset: int, timestamp_ns: int, salt: int
) -> bytes:
    """Encode one data chunk of messages with a common prefix. See `appendlog.layout.records`."""
    if not prefix or prefix[0] & (_ANNOTATED | _PERSISTENT) != _PERSISTENT:
        raise ValueError("messages with this prefix are not plain persistent ones")
    if _body_position(prefix, len(prefix)) != len(prefix):
        raise ValueError(f"prefix of {len(prefix)} bytes goes on behind its properties")
    count = len(payloads)
    _check_sizes(count, base_offset, None, None, b"")
    prefix_bytes = len(prefix)
    chunk_bytes = _CHUNK_HEADER_BYTES
    for payload in payloads:
        chunk_bytes += 12 + prefix_bytes + len(payload)
    chunk = memory.unwritten(chunk_bytes)
    target = memory.target_of(chunk)
    to = _CHUNK_HEADER_BYTES
    for index in range(count):
        payload = payloads[index]
        size = len(payload)
        if (  # pragma: no cover - 4 GiB, or another thread
            size + prefix_bytes + 8 > _U32_MAX or to + 12 + prefix_bytes + size > chunk_bytes
        ):
            raise ValueError("payloads are too long, or changed while they were encoded")
        memory.put_record(target, to, size + prefix_bytes + 8, index, 0, prefix)
        to += 12 + prefix_bytes
        memory.copy_octets(target, to, payload, 0, size)
        to += size
    body_bytes = chunk_bytes - _CHUNK_HEADER_BYTES - count * (12 + prefix_bytes)
    times = (timestamp_ns, timestamp_ns)
    sums = (salt, count, base_offset, count - 1, 0, body_bytes, *times, 0, 0, 0)
    tail = _CHUNK_TAIL.pack(to - 12, 1, 0, 0, *sums)
    memory.copy_octets(target, 8, tail, 0, len(tail))
    front = _CHUNK_FRONT.pack(_MAGIC, crc32c(memoryview(chunk)[8:]))
    memory.copy_octets(target, 0, front, 0, 8)
    return memory.written(chunk)


def priority_and_expiration(properties: bytes, at: int, end: int) -> tuple[int, int]:
    """Return priority and expiration of the properties [at, end). See `appendlog.layout.records`.

    Source: AMQP 0-9-1 section 4.2.6.1 and class basic: bit 15 is the first property.
    """
    octets = properties
    if end - at < 2:
        return _NEITHER
    present = octets[at] << 8 | octets[at + 1]
    more = present & 1
    at += 2
    while more:
        if end - at < 2:
            return _NEITHER
        more = octets[at + 1] & 1
        at += 2
    if present & _CONTENT_TYPE:
        at = _behind_text(octets, at, end)
    if present & _CONTENT_ENCODING:
        at = _behind_text(octets, at, end)
    if present & _HEADERS:
        if end - at < 4:
            return _NEITHER
        size = octets[at]
        size = size << 8 | octets[at + 1]
        size = size << 8 | octets[at + 2]
        size = size << 8 | octets[at + 3]
        at += 4 + size
    if present & _DELIVERY_MODE:
        at += 1
    priority = -1
    if present & _PRIORITY:
        if at >= end:
            return _NEITHER
        priority = octets[at]
        at += 1
    if not present & _EXPIRATION:
        return priority, -1
    if present & _CORRELATION_ID:
        at = _behind_text(octets, at, end)
    if present & _REPLY_TO:
        at = _behind_text(octets, at, end)
    stop = _behind_text(octets, at, end)
    if stop > end:
        return _NEITHER
    return priority, _milliseconds(properties[at + 1 : stop])


def _behind_text(octets: bytes, at: int, end: int) -> int:
    """Return where a short string ends, perhaps above `end`; reads only octets below `end`."""
    return at + 1 + octets[at] if at < end else end + 1


def _milliseconds(text: bytes) -> int:
    """Return the time that the text of an expiration says; -1 if it is no number."""
    digits = text[1:] if text.startswith(b"+") else text
    if not digits.isdigit():
        return -1
    digits = digits.lstrip(b"0") or b"0"
    if len(digits) > _EXPIRATION_DIGITS_MAX:
        return _EXPIRATION_MILLISECONDS_MAX
    return min(int(digits), _EXPIRATION_MILLISECONDS_MAX)


def _check_sizes(
    count: int,
    base_offset: int,
    offset_deltas: list[int] | None,
    timestamp_deltas_ns: list[int] | None,
    transaction_id: bytes,
) -> None:
    """Raise ValueError for arguments that cannot make a chunk."""
    if count == 0:
        raise ValueError("a chunk needs at least one message")
    if not 0 <= base_offset <= _OFFSET_MAX:
        raise ValueError(f"base offset {base_offset} is not in [0, {_OFFSET_MAX}]")
    if len(transaction_id) not in (0, 16):
        raise ValueError(f"transaction id has {len(transaction_id)} bytes, expected 16")
    for deltas in (offset_deltas, timestamp_deltas_ns):
        if deltas is not None and len(deltas) != count:
            raise ValueError(f"{len(deltas)} deltas for {count} messages")


def _body_position(message: bytes, size: int) -> int:
    """Return where the body of a message begins; checks every length first."""
    octets = message
    if size >= 7:
        at = 2 + octets[1]
        if at + 5 <= size:
            at += 5 + octets[at]
            if at <= size:
                at += memory.u32(octets, at - 4)
                if at <= size:
                    return at
    raise ValueError(f"message of {size} bytes ends inside its route or properties")


def _properties_position(message: bytes) -> int:
    """Return where the properties of a valid message begin."""
    at = 2 + message[1]
    return at + 5 + message[at]


def _bit(priority: int) -> int:
    """Return the bit of a priority in the bitmap."""
    one = 1
    return one << min(priority, 63)
