"""Frames out: a kernel that turns a run of messages into the octets of their frames.

The mirror of `_scanning_py`: messages of one route, with the same properties, have the same
octets up to the body, so these are looked at once, and one comparison tells that the next message
is like it; of the same size, it begins like what was written last. The interpreted build joins.
Compiled as `_writing_c`; `framing.py` chooses. A property header larger than frame_max goes out
as one long frame: the protocol cannot split it.

Source: AMQP 0-9-1 specification, section 4.2 (frames) and 4.2.6 (content).
"""

from __future__ import annotations

from array import array
from mmap import mmap
from struct import pack

COMPILED = __name__.endswith("_c")
if not COMPILED:  # the compiled build has them from the .pxd
    from amqp_server.protocol._headers_py import (
        body_position,
        count_offsets,
        headers_position,
        other_entries,
        split_for_offset,
        u32,
    )

ReadableBuffer = bytes | memoryview | mmap

_OFFSET_ENTRY = b"\x0fx-stream-offsetl"
_FRAMES_BYTES = 96
"""More than the frames of a message need beside its octets, the method's and a split body's."""


def encode_deliveries(
    messages: list[bytes],
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    frame_max: int,
    first_offset: int = -1,
) -> bytes | bytearray:
    """Return the octets of one `basic.deliver` with its content per message.

    Args:
        messages: Messages as they stand in ring and log (docs/log-format.md).
        channel: Channel number, 1 to 65535.
        consumer_tag: Octets of the consumer tag, at most 255.
        first_tag: Delivery tag of the first message; the others follow without a gap.
        redelivered: Whether the flag is set; the same for the whole run.
        frame_max: Largest frame in octets, framing included.
        first_offset: From 0 on, each delivery has the header `x-stream-offset`: this number in
            the first message; the others follow without a gap.

    Raises:
        ValueError: The lengths in a message do not add up.
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
        first_offset: As for `encode_deliveries`.

    Raises:
        ValueError: A message is not inside the buffer, or its lengths do not add up.
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
        message: The message; its exchange and routing key stand between the two parts.
        channel: Channel number.
        before_route: Method payload up to the exchange name.
        after_route: Method payload after the routing key.
        frame_max: Largest frame in octets, framing included.

    Raises:
        ValueError: The lengths in the message do not add up.
    """
    writer = _Writer(channel, before_route, 0, b"", after_route, frame_max, False)
    writer.begin(writer.room_for(len(message)))
    writer.put(message, 0, len(message), 0, 0)
    return writer.end()


def _delivery_writer(
    channel: int, consumer_tag: bytes, redelivered: bool, frame_max: int, first_offset: int
) -> _Writer:
    head = b"\x00\x3c\x00\x3c" + pack("B", len(consumer_tag)) + consumer_tag
    flag = pack("B", redelivered)
    return _Writer(channel, head, 8, flag, b"", frame_max, first_offset >= 0)


class _Writer:
    """Writes one message behind the other; knows how the last one begins.

    Args:
        channel: Channel number.
        method_head: Method payload up to the delivery tag.
        tag_bytes: Length of the delivery tag: 8, or 0 for none.
        before_route: Method payload from there to the exchange name.
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
        # What stands before the tag, the length of the body, the offset, and the body frames.
        self.start = self.middle = self.properties = self.rest = b""
        self.body_start = pack(">BH", 3, channel)

    def room_for(self, message_bytes: int) -> int:
        """Return the most octets that a message can become."""
        split = message_bytes // self.body_bytes_max * 8
        return _FRAMES_BYTES + self.method_bytes + message_bytes + split

    def begin(self, room: int) -> None:
        """Make room for all that will be put."""
        if COMPILED:  # pragma: no cover
            self.encoded: bytearray = unwritten(room)  # type: ignore[name-defined]  # noqa: F821
            self.target = self.encoded
            self.to = self.repeated_size = 0
        else:
            self.parts: list[bytes] = []

    def end(self) -> bytes | bytearray:
        """Return all that was put."""
        if COMPILED:  # pragma: no cover
            del self.encoded[self.to :]
            return self.encoded
        return b"".join(self.parts)

    def put(self, octets: bytes, at: int, size: int, tag: int, offset: int) -> None:
        """Write the frames of the message of `size` octets at `at`.

        Raises:
            ValueError: Its lengths do not add up.
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
        """Make the frames of a message that begins with `prefix`: the interpreted way."""
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
        """Write the frames of a message: the interpreted way."""
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

    # From here on the compiled way: octets go from the message to their place, none is an object.

    def _look_at(self, octets: bytes, at: int, size: int) -> None:  # pragma: no cover
        """Find the parts of a message up to its body; places are counted from its begin."""
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
            self.entries_bytes = 0
            self.is_rewritten = False
            if octets[start] & 0x20:
                headers += 4
                self.entries_bytes = u32(octets, headers - 4)
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
        """Write a message like the last in prefix and size: the same octets up to the body."""
        start = self.to
        head_bytes = self.frames_bytes - (size - self.prefix_bytes) - 1
        self._copy(place_in(self.target, start - self.frames_bytes), 0, head_bytes)  # type: ignore[name-defined]  # noqa: F821
        self.to = start + 7 + len(self.method_head)
        self._store(tag, 8)
        self.to = start + head_bytes
        self._copy(octets, at + self.prefix_bytes, size - self.prefix_bytes)
        self._store(0xCE, 1)

    def _write_properties(self, octets: bytes, at: int, offset: int) -> None:  # pragma: no cover
        """Write the property list with the offset behind the other headers."""
        place = at + self.properties_at
        self._store(octets[place] | 0x20, 1)
        self._copy(octets, place + 1, self.headers_at - self.properties_at - 1)
        self._store(self.entries_bytes + 25, 4)
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
