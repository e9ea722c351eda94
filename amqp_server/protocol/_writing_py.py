"""The kernel that encodes messages into the octets of their frames.

It is the mirror of `_scanning_py`. Messages with the same route and properties have the same octets
up to the body. So the kernel parses them once, and one comparison shows that the next message is
alike. In the compiled build, a message that also has the same size repeats what was written last.
The interpreted build joins bytes objects.
The build compiles it as `_writing_c`; `framing.py` chooses. A content header larger than frame_max
is sent as one long frame, because the protocol cannot split it.

Source: AMQP 0-9-1 specification, section 4.2 (frames) and 4.2.6 (content).
"""

from __future__ import annotations

from array import array
from mmap import mmap
from struct import pack

from amqp_server.protocol.methods import BasicDeliver

COMPILED = __name__.endswith("_c")
if not COMPILED:  # the compiled build has them from the .pxd
    from amqp_server.protocol._headers_py import (
        body_position,
        count_offsets,
        headers_position,
        other_entries,
        readable_end,
        split_for_offset,
        u32,
    )

ReadableBuffer = bytes | memoryview | mmap

_DELIVER = BasicDeliver.identity
_OFFSET_ENTRY = b"\x0fx-stream-offsetl"
_FRAMES_BYTES = 96
"""Upper bound for the frame octets of a message besides its own, the method's and splits."""


def encode_deliveries(
    messages: list[bytes],
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    frame_max: int,
    first_offset: int = -1,
) -> bytes | bytearray:
    """Return the octets of a `basic.deliver` with its content for each message.

    Args:
        messages: Messages as stored in ring and log (docs/log-format.md).
        channel: Channel number, 1 to 65535.
        consumer_tag: Octets of the consumer tag, at most 255.
        first_tag: Delivery tag of the first message; the others follow without a gap.
        redelivered: Whether the redelivered flag is set; the same for all messages.
        frame_max: Largest frame in octets, framing included.
        first_offset: Offset of the first message; the others follow without a gap. Each delivery
            gets its offset as header `x-stream-offset`; a negative number means no such header.

    Raises:
        ValueError: The lengths in a message are inconsistent.
    """
    writer = _delivery_writer(channel, consumer_tag, redelivered, frame_max, first_offset)
    room = 0
    if COMPILED:  # pragma: no cover
        for message in messages:
            room += writer.room_for(len(message))
    writer.begin(room)
    number = 0
    for message in messages:
        writer.put(message, 0, len(message), first_tag + number, first_offset + number)
        number += 1
    return writer.end()


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
    first_offset: int = -1,
) -> bytes | bytearray:
    """Return what `encode_deliveries` returns, for messages in a buffer.

    No message becomes a Python object: its octets are copied from the buffer, which may be a
    mapping of a file, straight to the result.

    Args:
        buffer: Buffer with the messages.
        positions: Position of each message in the buffer, an `array("I")`.
        lengths: Length of each message in octets, an `array("I")`.
        start: Index of the first message to encode.
        stop: Index after the last message to encode.
        channel: Channel number, 1 to 65535.
        consumer_tag: Octets of the consumer tag, at most 255.
        first_tag: Delivery tag of the first message; the others follow without a gap.
        redelivered: Whether the redelivered flag is set; the same for all messages.
        frame_max: Largest frame in octets, framing included.
        first_offset: As for `encode_deliveries`.

    Raises:
        ValueError: A message is not inside the buffer, or its lengths are inconsistent.
    """
    view, at_places, size_places = memoryview(buffer), positions, lengths
    if start < 0 or stop > len(positions) or stop > len(lengths):
        raise ValueError(f"[{start}, {stop}) is not inside {len(positions)} messages")
    writer = _delivery_writer(channel, consumer_tag, redelivered, frame_max, first_offset)
    room = 0
    view_bytes = len(view)
    for index in range(start, stop):
        size = size_places[index]
        if at_places[index] + size > view_bytes:
            raise ValueError(f"message {index} is not inside {view_bytes} bytes")
        room += writer.room_for(size)
    writer.begin(room)
    if COMPILED:  # pragma: no cover
        octets = octets_of(buffer)  # type: ignore[name-defined]  # noqa: F821 - in the .pxd
    else:
        octets = view
    number = 0
    for index in range(start, stop):
        at = at_places[index]
        size = size_places[index]
        if COMPILED:  # pragma: no cover
            writer.put(octets, at, size, first_tag + number, first_offset + number)
        else:
            message = bytes(octets[at : at + size])
            writer.put(message, 0, size, first_tag + number, first_offset + number)
        number += 1
    return writer.end()


def encode_content(
    message: bytes, channel: int, before_route: bytes, after_route: bytes, frame_max: int
) -> bytes | bytearray:
    """Return the octets of one method that carries `message`, and of its content.

    Args:
        message: The message; its exchange and routing key are put between the two parts.
        channel: Channel number.
        before_route: Method payload before the exchange name.
        after_route: Method payload after the routing key.
        frame_max: Largest frame in octets, framing included.

    Raises:
        ValueError: The lengths in the message are inconsistent.
    """
    writer = _Writer(channel, before_route, 0, b"", after_route, frame_max, False)
    writer.begin(writer.room_for(len(message)))
    writer.put(message, 0, len(message), 0, 0)
    return writer.end()


def _delivery_writer(
    channel: int, consumer_tag: bytes, redelivered: bool, frame_max: int, first_offset: int
) -> _Writer:
    head = _DELIVER + pack("B", len(consumer_tag)) + consumer_tag
    flag = pack("B", redelivered)
    return _Writer(channel, head, 8, flag, b"", frame_max, first_offset >= 0)


class _Writer:
    """Writes messages one after another; remembers the prefix of the last one.

    Args:
        channel: Channel number.
        method_head: Method payload before the delivery tag.
        tag_bytes: Length of the delivery tag: 8, or 0 for none.
        before_route: Method payload between the delivery tag and the exchange name.
        after_route: Method payload after the routing key.
        frame_max: Largest frame in octets, framing included.
        has_offset: Whether each message gets its offset as a header.
    """

    def __init__(
        self,
        channel: int,
        method_head: bytes,
        tag_bytes: int,
        before_route: bytes,
        after_route: bytes,
        frame_max: int,
        has_offset: bool,
    ) -> None:
        self.channel = channel
        self.method_head = method_head
        self.tag_bytes = tag_bytes
        self.before_route = before_route
        self.after_route = after_route
        self.body_bytes_max = frame_max - 8
        self.has_offset = has_offset
        self.may_repeat = tag_bytes != 0 and not has_offset
        self.method_bytes = len(method_head) + tag_bytes + len(before_route) + len(after_route)
        self.prefix = b""
        self.prefix_bytes = 0
        # Octets before the tag, before the body's length, before the offset, and before the body.
        self.start = self.middle = self.properties = self.rest = b""
        self.body_start = pack(">BH", 3, channel)

    def room_for(self, message_bytes: int) -> int:
        """Return the largest number of octets that a message can become."""
        split = message_bytes // self.body_bytes_max * 8
        return _FRAMES_BYTES + self.method_bytes + message_bytes + split

    def begin(self, room: int) -> None:
        """Reserve room for everything that will be written."""
        if COMPILED:  # pragma: no cover
            self.encoded: bytearray = unwritten(room)  # type: ignore[name-defined]  # noqa: F821
            self.target = self.encoded
            self.to = self.repeated_size = 0
        else:
            self.parts: list[bytes] = []

    def end(self) -> bytes | bytearray:
        """Return everything that was written."""
        if COMPILED:  # pragma: no cover
            del self.encoded[self.to :]
            return self.encoded
        return b"".join(self.parts)

    def put(self, octets: bytes, at: int, size: int, tag: int, offset: int) -> None:
        """Write the frames of the message of `size` octets at `at`.

        Raises:
            ValueError: Its lengths are inconsistent.
        """
        prefix_bytes = self.prefix_bytes
        if COMPILED:  # pragma: no cover
            if (
                prefix_bytes == 0
                or size < prefix_bytes
                or not is_same(octets, at, self.model, prefix_bytes)  # type: ignore[name-defined]  # noqa: F821
            ):
                self._look_at(octets, at, size)
                self.repeated_size = 0
            if size == self.repeated_size:
                self._repeat(octets, at, size, tag)
            else:
                start = self.to
                self._write(octets, at, size, tag, offset)
                self.frames_bytes = self.to - start
                is_whole = self.prefix_bytes < size <= self.prefix_bytes + self.body_bytes_max
                self.repeated_size = size if is_whole and self.may_repeat else 0
        else:
            if prefix_bytes == 0 or not octets.startswith(self.prefix, at):
                prefix_bytes = body_position(octets, at, size)
                self._change(octets[:prefix_bytes])
            self._join(octets[prefix_bytes:], tag, offset)

    def _change(self, prefix: bytes) -> None:
        """Prepare the frames of messages that begin with `prefix` (interpreted build)."""
        route_end = 2 + prefix[1]
        route_end = route_end + 1 + prefix[route_end]
        properties = prefix[route_end + 4 :]
        rest = b""
        properties_bytes = len(properties)
        if self.has_offset:
            properties, rest = split_for_offset(properties)
            properties_bytes = len(properties) + 8 + len(rest)
        method_bytes = self.method_bytes + route_end - 1
        self.start = pack(">BHI", 1, self.channel, method_bytes) + self.method_head
        self.middle = b"".join(
            (
                self.before_route,
                prefix[1:route_end],
                self.after_route,
                pack(">BBHII", 0xCE, 2, self.channel, 12 + properties_bytes, 60 << 16),
            )
        )
        if self.has_offset:
            self.properties = properties
            self.rest = rest + b"\xce"
        else:
            self.properties = properties + b"\xce"
        self.prefix = prefix
        self.prefix_bytes = len(prefix)

    def _join(self, body: bytes, tag: int, offset: int) -> None:
        """Write the frames of a message (interpreted build)."""
        size = len(body)
        parts = self.parts
        parts.append(self.start)
        if self.tag_bytes:
            parts.append(tag.to_bytes(8, "big"))
        parts += (self.middle, size.to_bytes(8, "big"), self.properties)
        if self.has_offset:
            parts += (offset.to_bytes(8, "big"), self.rest)
        if size <= self.body_bytes_max:
            if size:
                parts += (self.body_start, size.to_bytes(4, "big"), body, b"\xce")
            return
        for at in range(0, size, self.body_bytes_max):
            part = body[at : at + self.body_bytes_max]
            parts += (self.body_start, len(part).to_bytes(4, "big"), part, b"\xce")

    # The compiled build only, from here on: octets are copied to their place without objects.

    def _look_at(self, octets: bytes, at: int, size: int) -> None:  # pragma: no cover
        """Find the parts of a message before its body; positions are relative to its start."""
        self.prefix_bytes = 0
        prefix_bytes = body_position(octets, at, size)
        route_end = 2 + octets[at + 1]
        route_end = route_end + 1 + octets[at + route_end]
        self.route_end = route_end
        self.properties_at = route_end + 4
        if self.has_offset:
            start = at + self.properties_at
            headers = headers_position(octets, start, at + prefix_bytes)
            self.headers_at = self.behind = headers - at
            self.entries_bytes = self.unreadable_bytes = 0
            self.is_rewritten = False
            if octets[start] & 0x20:
                headers += 4
                end = headers + u32(octets, headers - 4)
                self.entries_bytes = readable_end(octets, headers, end) - headers
                self.unreadable_bytes = end - headers - self.entries_bytes
                self.behind += 4 + self.entries_bytes
                if count_offsets(octets, headers, headers + self.entries_bytes) != 0:
                    self.entries = other_entries(octets[headers : headers + self.entries_bytes])
                    self.entries_bytes = len(self.entries)
                    self.is_rewritten = True
            table_bytes = 4 + self.entries_bytes + len(_OFFSET_ENTRY) + 8
            self.properties_bytes = (
                self.headers_at - self.properties_at + table_bytes + prefix_bytes - self.behind
            )
        else:
            self.properties_bytes = prefix_bytes - self.properties_at
        self.model = place_in(octets, at)  # type: ignore[name-defined]  # noqa: F821
        self.prefix_bytes = prefix_bytes

    def _write(
        self, octets: bytes, at: int, size: int, tag: int, offset: int
    ) -> None:  # pragma: no cover
        """Write the frames of a message whose parts are known."""
        self._store(1, 1)
        self._store(self.channel, 2)
        self._store(self.method_bytes + self.route_end - 1, 4)
        self._copy(self.method_head, 0, len(self.method_head))
        if self.tag_bytes != 0:
            self._store(tag, 8)
        self._copy(self.before_route, 0, len(self.before_route))
        self._copy(octets, at + 1, self.route_end - 1)
        self._copy(self.after_route, 0, len(self.after_route))
        self._store(0xCE02, 2)
        self._store(self.channel, 2)
        self._store(12 + self.properties_bytes, 4)
        self._store(60 << 16, 4)
        self._store(size - self.prefix_bytes, 8)
        if self.has_offset:
            self._write_properties(octets, at, offset)
        else:
            self._copy(octets, at + self.properties_at, self.properties_bytes)
        self._store(0xCE, 1)
        at += self.prefix_bytes
        size -= self.prefix_bytes
        while size > 0:
            part = min(size, self.body_bytes_max)
            self._store(3, 1)
            self._store(self.channel, 2)
            self._store(part, 4)
            self._copy(octets, at, part)
            self._store(0xCE, 1)
            at += part
            size -= part

    def _repeat(self, octets: bytes, at: int, size: int, tag: int) -> None:  # pragma: no cover
        """Write a message with the prefix and size of the last: copy that one's octets."""
        start = self.to
        head_bytes = self.frames_bytes - (size - self.prefix_bytes) - 1
        self._copy(place_in(self.target, start - self.frames_bytes), 0, head_bytes)  # type: ignore[name-defined]  # noqa: F821
        self.to = start + 7 + len(self.method_head)
        self._store(tag, 8)
        self.to = start + head_bytes
        self._copy(octets, at + self.prefix_bytes, size - self.prefix_bytes)
        self._store(0xCE, 1)

    def _write_properties(self, octets: bytes, at: int, offset: int) -> None:  # pragma: no cover
        """Write the property list, with the offset after the other headers."""
        place = at + self.properties_at
        self._store(octets[place] | 0x20, 1)
        self._copy(octets, place + 1, self.headers_at - self.properties_at - 1)
        self._store(self.entries_bytes + 25 + self.unreadable_bytes, 4)
        if self.is_rewritten:
            self._copy(self.entries, 0, self.entries_bytes)
        else:
            self._copy(octets, at + self.headers_at + 4, self.entries_bytes)
        self._copy(_OFFSET_ENTRY, 0, len(_OFFSET_ENTRY))
        self._store(offset, 8)
        self._copy(octets, at + self.behind, self.prefix_bytes - self.behind)

    def _copy(self, octets: bytes, at: int, size: int) -> None:  # pragma: no cover
        """Copy `size` octets."""
        copy_octets(self.target, self.to, octets, at, size)  # type: ignore[name-defined]  # noqa: F821
        self.to += size

    def _store(self, number: int, size: int) -> None:  # pragma: no cover
        """Store a number of `size` octets, big-endian."""
        store_number(self.target, self.to, number, size)  # type: ignore[name-defined]  # noqa: F821
        self.to += size
