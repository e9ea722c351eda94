"""The kernel that scans frames: walks a whole read buffer once.

`FrameScanner` reports *runs*: publishes with the same `basic.publish` frame, and acknowledgements
of one channel. It reports everything else frame by frame. A client mostly sends the same method
frame and content header again and again. So the scanner remembers the octets of the last publish
before its body, and one comparison replaces decoding the next. If each publish has a frame of its
own (another routing key), neighbours are reported as a *row*.

The file is ordinary Python. `_scanning_c.pxd` gives its names C types, and the build compiles it as
`_scanning_c`; `framing.py` chooses. Three rules keep both builds correct and fast. Lengths are
checked before octets are read, because a compiled index is not checked. Octets are widened before
they are shifted. Copies are slices, never loops over octets.

Source: AMQP 0-9-1 specification, section 4.2 (frames) and 4.2.6 (content).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.frame_text import frame_text

if TYPE_CHECKING:
    from amqp_server.protocol._events_py import Event

COMPILED = __name__.endswith("_c")
if not COMPILED:  # the compiled build has them from the .pxd
    from amqp_server.protocol import _events_py as _events
    from amqp_server.protocol import _octets_py as _octets
    from amqp_server.protocol._headers_py import copies_named

_HEADERS = 1 << 13
_HAS_HEADERS = 2
_REPLY_TO = 1 << 9
_DIRECT_REPLY_TO = b"\x15amq.rabbitmq.reply-to"
_DIRECT_REPLY_TO_BYTES = 21
CHECKED_PROPERTIES = _REPLY_TO | 1 << 8 | 1 << 4
"""Flags of reply-to, expiration and user-id, whose values the broker checks."""
EMPTY = b""
"""Adding a slice to it makes bytes from both kinds of buffer; calling `bytes` costs more."""
REPEATS_MAX = 8
"""Most neighbours with equal method payloads in a row; more of them are a run of their own."""
_MORE = -1
_SINGLY = -2


def long_at(data: bytes | bytearray, at: int) -> int:
    """Return the big-endian 32 bits at a position; the caller has checked that they exist."""
    value = data[at]
    value = value << 8 | data[at + 1]
    value = value << 8 | data[at + 2]
    return value << 8 | data[at + 3]


def property_list_end(data: bytes | bytearray, at: int, end: int, flags: int) -> int:
    """Return where the property list that starts at `at` ends, or -1 if it does not fit.

    Only lengths are followed: `copies_in_headers` looks into the headers.
    """
    bit = 15
    while bit >= 2:
        if flags >> bit & 1:
            if bit == 13:
                if end - at < 4:
                    return -1
                size = long_at(data, at)
                at += 4 + size
            elif bit == 12 or bit == 11:
                at += 1
            elif bit == 6:
                at += 8
            else:
                if at >= end:
                    return -1
                at += 1 + data[at]
            if at > end:
                return -1
        bit -= 1
    return at


def headers_position(data: bytes | bytearray, at: int, flags: int) -> int:
    """Return the position of the headers' length in a list that was checked to fit."""
    if flags >> 15 & 1:
        at += 1 + data[at]
    if flags >> 14 & 1:
        at += 1 + data[at]
    return at


def copies_in_headers(data: bytes | bytearray, at: int, flags: int) -> int:
    """Return 1 if the headers of a list that was checked to fit name `CC` or `BCC`, or else 0.

    Returns:
        1 or 0; -1 if the headers cannot be decoded.
    """
    if not flags & _HEADERS:
        return 0
    at = headers_position(data, at, flags)
    size = long_at(data, at)
    at += 4
    return copies_named(data, at, at + size)


def delivery_mode_position(data: bytes | bytearray, at: int, flags: int) -> int:
    """Return the position of the delivery-mode octet in a list that was checked to fit."""
    at = headers_position(data, at, flags)
    if flags >> 13 & 1:
        size = long_at(data, at)
        at += 4 + size
    return at


def asks_for_replies(data: bytes | bytearray, at: int, flags: int) -> bool:
    """Return whether the reply-to of a list that was checked to fit asks for direct replies."""
    if not flags & _REPLY_TO:
        return False
    at = delivery_mode_position(data, at, flags)
    if flags >> 12 & 1:
        at += 1
    if flags >> 11 & 1:
        at += 1
    if flags >> 10 & 1:
        at += 1 + data[at]
    return data[at] == _DIRECT_REPLY_TO_BYTES and _octets.is_same(
        data, at, _DIRECT_REPLY_TO, 1 + _DIRECT_REPLY_TO_BYTES
    )


def checked_flags_of(data: bytes | bytearray, at: int, flags: int, copies: int) -> int:
    """Return the flags of those properties that the broker must look at.

    These are `CHECKED_PROPERTIES`, of which reply-to counts only if it asks for direct replies, and
    the headers if `CC` or `BCC` is among them. The other properties make no difference, so messages
    with and without a correlation-id go together.

    Args:
        data: Octets that hold the property list, which was checked to fit.
        at: Where it starts.
        flags: First word of the property flags.
        copies: What `copies_in_headers` has returned, not -1.
    """
    checked = flags & CHECKED_PROPERTIES
    if copies != 0:
        checked |= _HEADERS
    if not asks_for_replies(data, at, flags):
        checked &= ~_REPLY_TO
    return checked


def single_frame(kind: int, channel: int, payload: bytes) -> Event:
    """Return the event of a frame that belongs to no run; its type was checked."""
    if kind == 1:
        return _events.MethodFrame(channel, payload)
    if kind == 2:
        return _events.ContentHeader(channel, payload)
    if kind == 3:
        return _events.ContentBody(channel, payload)
    return _events.HeartbeatFrame(channel)


class FrameScanner:
    """Converts the read buffers of one connection into events; keeps no octets of its own.

    Args:
        frame_max: Largest frame in octets, its 8 octets of framing included (>= 4096).
        body_bytes_max: Largest body that becomes part of a run; larger ones are reported frame by
            frame, and the content assembly checks them.
    """

    def __init__(self, frame_max: int, body_bytes_max: int) -> None:
        self.frame_max = frame_max
        self.body_bytes_max = min(body_bytes_max, frame_max - 8)
        # The frames of the last publish before its body. They are copied only when a publish is
        # alike, or when the buffer ends; until then they begin at `group_at` in the buffer.
        self.group_prefix = b""
        self.group_prefix_bytes = 0
        self.group_body_bytes = 0
        self.group_at = 0
        self.route_at = self.route_end = self.properties_at = self.properties_end = 0
        self.message_prefix = b""
        self.method_payload = b""
        self.method_frame = b""
        self.channel = 0
        self.repeats = 0
        self.checked_flags = 0
        self.message_flags = 0
        self.shared_flags = 0

    def scan(self, data: bytes | bytearray, start: int, end: int, events: list[Event]) -> int:
        """Append the events of `data[start:end]` and return the position of the rest.

        The rest is an incomplete frame, or an incomplete publish of at most `body_bytes_max`. The
        caller must put it at the start of the next buffer. After a `BrokenFrame` the scanner reads
        nothing more.

        Args:
            data: bytes or bytearray; everything needed is copied from it.
            start: First octet to read.
            end: One past the last octet that was received.
            events: List to which events are appended.

        Returns:
            Position of the first octet that was not consumed, in [start, end].
        """
        at = start
        run: list[bytes] | None = None
        acks: list[int] | None = None
        ack_channel = -1
        last_tag = 0
        prefix_bytes = self.group_prefix_bytes
        body_bytes = self.group_body_bytes
        group_prefix = self.group_prefix
        message_prefix = self.message_prefix
        is_kept = len(group_prefix) != 0
        while at < end:
            if prefix_bytes != 0:
                body_at = at + prefix_bytes
                stop = body_at + body_bytes
                if body_bytes != 0:
                    stop += 1
                if (
                    stop <= end
                    and (body_bytes == 0 or data[stop - 1] == 0xCE)
                    and (
                        _octets.is_same(data, at, group_prefix, prefix_bytes)
                        if is_kept
                        else _octets.is_repeated(data, at, self.group_at, prefix_bytes)
                    )
                ):
                    if not is_kept:
                        self._keep_group(data)
                        group_prefix = self.group_prefix
                        message_prefix = self.message_prefix
                        is_kept = True
                    if body_bytes != 0:
                        message = _octets.joined(message_prefix, data, body_at, stop - 1)
                    else:
                        message = message_prefix
                    if run is None:
                        acks = None
                        run = self._begin_run(message, events)
                    else:
                        run.append(message)
                    at = stop
                    continue
            if end - at < 7:
                break
            kind = data[at]
            channel = data[at + 1]
            channel = channel << 8 | data[at + 2]
            size = long_at(data, at + 3)
            if size > self.frame_max:
                # Eight octets of tolerance, as in RabbitMQ: some clients leave the framing out of
                # frame_max.
                cause = f"{{frame_too_large,{size},{self.frame_max - 8}}}"
                return self._fail(channel, f"{frame_text(kind, b'')}: {cause}", end, events)
            stop = at + 8 + size
            if stop > end:
                break
            if data[stop - 1] != 0xCE:
                cause = f"{{invalid_frame_end_marker,{data[stop - 1]}}}"
                payload = bytes(data[at + 7 : stop - 1])
                return self._fail(channel, f"{frame_text(kind, payload)}: {cause}", end, events)
            if (
                (kind != 1 or size < 4)
                and (kind != 2 or size < 12)
                and kind != 3
                and (kind != 8 or size != 0)
            ):
                payload = bytes(data[at + 7 : stop - 1])
                return self._fail(
                    channel, f"{frame_text(kind, payload)}: unknown_frame", end, events
                )
            if kind == 1 and size >= 9 and data[at + 8] == 60 and data[at + 7] == 0:
                if data[at + 10] == 80 and data[at + 9] == 0 and size == 13:
                    tag = long_at(data, at + 11)
                    tag = tag << 32 | long_at(data, at + 15)
                    multiple = data[at + 19] & 1
                    if tag != 0 and tag >> 62 == 0:
                        if acks is None or ack_channel != channel:
                            acks = []
                            ack_channel = channel
                            events.append(_events.ack_run(channel, acks))
                            run = None
                            last_tag = 0
                        if multiple != 0:
                            acks.append(0)
                            acks.append(tag)
                            last_tag = 0
                        elif last_tag != 0 and tag == last_tag + 1:
                            acks[len(acks) - 1] = tag
                            last_tag = tag
                        else:
                            acks.append(tag)
                            acks.append(tag)
                            last_tag = tag
                        at = stop
                        continue
                elif data[at + 10] == 40 and data[at + 9] == 0:
                    outcome = self._learn_publish(data, at, stop, end)
                    if outcome == _MORE:
                        break
                    if outcome != _SINGLY:
                        prefix_bytes = self.group_prefix_bytes
                        body_bytes = self.group_body_bytes
                        is_kept = False
                        body_at = at + prefix_bytes
                        message = self._message(data, body_at, body_at + body_bytes)
                        at = body_at + body_bytes
                        if body_bytes != 0:
                            at += 1
                        if outcome != 0 or run is None:
                            acks = None
                            run = self._begin_run(message, events)
                        else:
                            run.append(message)
                        continue
                    prefix_bytes = 0
            run = None
            acks = None
            events.append(single_frame(kind, channel, EMPTY + data[at + 7 : stop - 1]))
            at = stop
        if self.group_prefix_bytes != 0 and len(self.group_prefix) == 0:
            self._keep_group(data)
        return at

    def _fail(self, channel: int, text: str, end: int, events: list[Event]) -> int:
        """Report a frame error and return the end of what was received: the rest is skipped."""
        # Nothing of the last publish was copied from this buffer.
        self.group_prefix_bytes = 0
        events.append(_events.BrokenFrame(channel, text))
        return end

    def _keep_group(self, data: bytes | bytearray) -> None:
        """Copy what is remembered of the last publish; the buffer may change after that."""
        self.group_prefix = EMPTY + data[self.group_at : self.group_at + self.group_prefix_bytes]
        self.message_prefix = self._message(data, 0, 0)

    def _message(self, data: bytes | bytearray, body_at: int, body_end: int) -> bytes:
        """Return the message of the last publish, with a body from the buffer."""
        return _octets.message_of(
            self.message_flags,
            data,
            self.route_at,
            self.route_end,
            self.properties_at,
            self.properties_end,
            body_at,
            body_end,
        )

    def _begin_run(self, message: bytes, events: list[Event]) -> list[bytes] | None:
        """Add a message whose method frame differs from that of the message before it.

        Returns:
            The run for further messages with the same frame; None if this one is part of a row.
        """
        last = events[len(events) - 1] if events else None
        if type(last) is _events.PublishRow:
            row = last
            if (
                row.channel == self.channel
                and row.checked_flags == self.checked_flags
                and row.shared_flags == self.shared_flags
            ):
                payloads = row.method_payloads
                if payloads[len(payloads) - 1] is self.method_payload:
                    self.repeats += 1
                else:
                    self.repeats = 1
                if self.repeats <= REPEATS_MAX:
                    payloads.append(self.method_payload)
                    messages = row.messages
                    messages.append(message)
                    return None
        elif type(last) is _events.PublishRun:
            before = last
            messages = before.messages
            if (
                before.channel == self.channel
                and before.checked_flags == self.checked_flags
                and before.shared_flags == self.shared_flags
                and len(messages) <= REPEATS_MAX
                and before.method_payload is not self.method_payload
            ):
                payloads = [before.method_payload] * len(messages)
                payloads.append(self.method_payload)
                messages.append(message)
                self.repeats = 1
                events[len(events) - 1] = _events.PublishRow(
                    self.channel, payloads, messages, self.checked_flags, self.shared_flags
                )
                return None
        run = [message]
        events.append(
            _events.publish_run(
                self.channel, self.method_payload, run, self.checked_flags, self.shared_flags
            )
        )
        return run

    def _learn_publish(self, data: bytes | bytearray, at: int, method_end: int, end: int) -> int:
        """Remember the publish whose method frame is `data[at:method_end]`, if it is complete.

        Returns:
            0 if it belongs to the run before it; 1 if it starts a new one; _MORE if octets are
              missing; _SINGLY if it must be reported frame by frame. The latter is a body in
              several frames, other frames between its own, or an inconsistent method or content
              header.
        """
        self.group_prefix_bytes = 0
        if end - method_end < 21:
            if end - method_end >= 3 and (
                data[method_end] != 2
                or data[method_end + 1] != data[at + 1]
                or data[method_end + 2] != data[at + 2]
            ):
                return _SINGLY
            if end - method_end >= 7:
                size = long_at(data, method_end + 3)
                if size < 14:
                    # The header may be complete already: the client may send nothing more.
                    return _SINGLY
            return _MORE
        if (
            data[method_end] != 2
            or data[method_end + 1] != data[at + 1]
            or data[method_end + 2] != data[at + 2]
        ):
            return _SINGLY
        size = long_at(data, method_end + 3)
        if size < 14 or size > self.frame_max - 8:
            return _SINGLY
        header_end = method_end + 8 + size
        if header_end > end:
            return _MORE
        if data[header_end - 1] != 0xCE or data[method_end + 7] != 0 or data[method_end + 8] != 60:
            return _SINGLY
        if data[method_end + 9] != 0 or data[method_end + 10] != 0:
            return _SINGLY
        high = long_at(data, method_end + 11)
        body_bytes = long_at(data, method_end + 15)
        if high != 0 or body_bytes > self.body_bytes_max:
            return _SINGLY
        prefix_end = header_end
        if body_bytes != 0:
            if end - header_end < 7:
                return _MORE
            size = long_at(data, header_end + 3)
            if (
                data[header_end] != 3
                or data[header_end + 1] != data[at + 1]
                or data[header_end + 2] != data[at + 2]
                or size != body_bytes
            ):
                return _SINGLY
            prefix_end = header_end + 7
            if end - prefix_end < body_bytes + 1:
                return _MORE
            if data[prefix_end + body_bytes] != 0xCE:
                return _SINGLY
        return self._remember(data, at, method_end, header_end, prefix_end, body_bytes)

    def _remember(
        self,
        data: bytes | bytearray,
        at: int,
        method_end: int,
        header_end: int,
        prefix_end: int,
        body_bytes: int,
    ) -> int:
        """Store the frames that `_learn_publish` has checked; returns the same values."""
        flags_at = method_end + 19
        flags = data[flags_at]
        flags = flags << 8 | data[flags_at + 1]
        if flags & 3 != 0:
            return _SINGLY
        list_end = property_list_end(data, flags_at + 2, header_end - 1, flags)
        if list_end != header_end - 1:
            return _SINGLY
        copies = copies_in_headers(data, flags_at + 2, flags)
        if copies < 0:
            return _SINGLY
        route_at = at + 13
        last = method_end - 2
        route_end = route_at + 1 + data[route_at]
        if route_end >= last:
            return _SINGLY
        route_end += 1 + data[route_end]
        if route_end != last:
            return _SINGLY
        message_flags = 0
        if flags >> 12 & 1 and data[delivery_mode_position(data, flags_at + 2, flags)] == 2:
            message_flags = 1
        message_flags |= (flags >> 13 & 1) << 1 | (flags >> 8 & 1) << 2 | (flags >> 11 & 1) << 3
        fresh = 0
        size = method_end - at
        if len(self.method_frame) != size or not _octets.is_same(data, at, self.method_frame, size):
            self.method_frame = EMPTY + data[at:method_end]
            self.method_payload = EMPTY + data[at + 7 : method_end - 1]
            channel = data[at + 1]
            channel = channel << 8 | data[at + 2]
            self.channel = channel
            fresh = 1
        checked_flags = checked_flags_of(data, flags_at + 2, flags, copies)
        shared_flags = message_flags & ~_HAS_HEADERS
        if checked_flags != self.checked_flags or shared_flags != self.shared_flags:
            fresh = 1
        self.checked_flags = checked_flags
        self.message_flags = message_flags
        self.shared_flags = shared_flags
        self.route_at = route_at
        self.route_end = route_end
        self.properties_at = flags_at
        self.properties_end = header_end - 1
        self.group_prefix = b""
        self.group_prefix_bytes = prefix_end - at
        self.group_body_bytes = body_bytes
        self.group_at = at
        return fresh
