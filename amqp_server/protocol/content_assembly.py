"""Assembles a publish that arrives frame by frame, because the scanner took it in no run.

This happens to large messages, bodies in several frames, and publishes interrupted by frames of
other channels. `ChannelMachine` lets them come in the right order only. A body that is too long
closes the connection with 501.

Source: AMQP 0-9-1 specification, section 4.2.6; texts as in RabbitMQ's command assembler.
"""

from __future__ import annotations

from io import BytesIO
from struct import unpack_from

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.errors import (
    FieldSyntaxError,
    FrameError,
    PreconditionFailed,
    ResourceError,
    UnexpectedFrame,
)
from amqp_server.protocol.framing import (
    PublishRun,
    checked_flags_of,
    copies_in_headers,
    delivery_mode_position,
    headers_position,
    property_list_end,
    readable_end,
)
from amqp_server.protocol.methods import BasicPublish
from appendlog.layout.message import (
    HAS_EXPIRATION,
    HAS_HEADERS,
    HAS_PRIORITY,
    PERSISTENT,
    encode_message,
)

_BASIC_CLASS = int(ClassId.BASIC)
_PUBLISH = BasicPublish.ids
RESERVED_SHARE = 8
"""Times its size that the first frame of a body reserves at most."""
_LIST_AT = 14
"""Where the property list begins in a content header: after class, weight, size and flags."""


def header_expected() -> UnexpectedFrame:
    """Return the error for another frame in the place of a content header."""
    return UnexpectedFrame(
        f"expected content header for class {_BASIC_CLASS}, got non content header frame instead",
        *_PUBLISH,
    )


def body_expected() -> UnexpectedFrame:
    """Return the error for another frame in the place of a content body frame."""
    return UnexpectedFrame("expected content body, got non content body frame instead", *_PUBLISH)


class AssemblyBudget:
    """Limits the bytes of incomplete bodies of all connections together.

    Above the limit a connection gets no more if it holds more than its fair share: the limit
    divided by the number of connections that hold something. So one client that uses up the
    limit does not keep the others from publishing. All connections together never hold more
    than twice `bytes_max`.

    Args:
        bytes_max: The limit, in bytes.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._held_bytes_by_owner: dict[object, int] = {}

    def has_room(self, count: int) -> bool:
        """Return whether any connection may get some more bytes."""
        return self.held_bytes + count <= self.bytes_max

    def take(self, owner: object, count: int) -> None:
        """Add bytes to what a connection holds.

        Raises:
            ResourceError: The limit is exceeded, and this connection holds more than its share.
        """
        held_bytes = self._held_bytes_by_owner.get(owner, 0) + count
        if self.held_bytes + count > self.bytes_max:
            owners = len(self._held_bytes_by_owner.keys() | {owner})
            if held_bytes > self.bytes_max // owners:
                raise ResourceError(
                    f"incomplete messages of this connection hold {held_bytes} bytes, more than "
                    f"its share of the {self.bytes_max} that are allowed in all",
                    *_PUBLISH,
                )
        self.held_bytes += count
        self._held_bytes_by_owner[owner] = held_bytes

    def release(self, owner: object, count: int) -> None:
        """Subtract bytes from what a connection holds."""
        self.held_bytes -= count
        left = self._held_bytes_by_owner.get(owner, 0) - count
        if left > 0:
            self._held_bytes_by_owner[owner] = left
        else:
            self._held_bytes_by_owner.pop(owner, None)


class ContentAssembly:
    """Collects the header and body frames of one publish.

    The frames are written behind each other into the message as it is stored. A header that
    announces a large body reserves nothing. The first frame reserves the room of all, if it is an
    eighth of the body or more; otherwise the room grows by an eighth at a time, with what has
    arrived. The complete message is that room itself, not a copy of it.

    Args:
        method: The `basic.publish` that announced the content.
        method_payload: Octets of the method, for the routing cache.
        message_bytes_max: Largest body that is accepted, in bytes.
        budget: Limit that all incomplete bodies share.
        owner: Connection that publishes the message.
    """

    def __init__(
        self,
        method: BasicPublish,
        method_payload: bytes,
        message_bytes_max: int,
        budget: AssemblyBudget,
        owner: object = None,
    ) -> None:
        self.method = method
        self.method_payload = method_payload
        self.checked_flags = 0
        self.message_flags = 0
        self._message_bytes_max = message_bytes_max
        self._budget = budget
        self._owner = owner
        self._properties: bytes | None = None
        self._message = BytesIO()
        self._missing_bytes = 0
        self._body_bytes = 0
        # Of the body, what it has taken of the budget.
        self._held_bytes = 0

    @property
    def message(self) -> bytes:
        """The complete message; reading it does not copy it."""
        assert self._properties is not None, "a message needs its content header"
        return self._message.getvalue()

    def as_run(self, channel: int) -> PublishRun:
        """Return the complete message as the scanner reports one that arrives in one read."""
        shared_flags = self.message_flags & ~HAS_HEADERS
        return PublishRun(
            channel, self.method_payload, [self.message], self.checked_flags, shared_flags
        )

    def take_header(self, payload: bytes) -> bool:
        """Accept the content header; return whether the message is complete (an empty body).

        Raises:
            UnexpectedFrame: The header is of another class.
            FieldSyntaxError: The header is malformed.
            PreconditionFailed: The body would be larger than allowed. Its frames still follow, and
                the caller discards them.
        """
        assert self._properties is None, "a content has one header"
        if len(payload) < _LIST_AT:
            raise FieldSyntaxError("malformed content header", *_PUBLISH)
        class_id, weight, body_bytes, flags = unpack_from(">HHQH", payload)
        if class_id != _BASIC_CLASS:
            raise UnexpectedFrame(
                f"expected content header for class {_BASIC_CLASS}, "
                f"got one for class {class_id} instead",
                *_PUBLISH,
            )
        if weight:
            raise header_expected()
        if flags & 3 or property_list_end(payload, _LIST_AT, len(payload), flags) != len(payload):
            raise FieldSyntaxError("malformed content header", *_PUBLISH)
        copies = copies_in_headers(payload, _LIST_AT, flags)
        if copies < 0:
            raise _unreadable_header(payload, flags)
        if body_bytes > self._message_bytes_max:
            raise PreconditionFailed(
                f"message size {body_bytes} is larger than configured max size "
                f"{self._message_bytes_max}",
                *_PUBLISH,
            )
        self._properties = payload[12:]
        self._missing_bytes = body_bytes
        self.checked_flags = checked_flags_of(payload, _LIST_AT, flags, copies)
        self.message_flags = _message_flags(payload, flags)
        method = self.method
        before_body = encode_message(
            self.message_flags,
            method.exchange.encode("utf-8", "surrogateescape"),
            method.routing_key.encode("utf-8", "surrogateescape"),
            self._properties,
            b"",
        )
        self._message.write(before_body)
        return self._missing_bytes == 0

    def take_body(self, payload: bytes) -> bool:
        """Accept a body frame; return whether the message is complete.

        Raises:
            FrameError: The body is longer than its header announced.
            ResourceError: All incomplete bodies together exceed the limit, and this connection
                holds more than its share.
        """
        assert self._properties is not None, "the header comes before the body"
        if len(payload) > self._missing_bytes:
            raise FrameError("content body frame exceeds remaining content size", *_PUBLISH)
        if not self._held_bytes and self._missing_bytes <= RESERVED_SHARE * len(payload):
            self._reserve()
        arrived_bytes = self._body_bytes + len(payload)
        if arrived_bytes > self._held_bytes:
            self._budget.take(self._owner, arrived_bytes - self._held_bytes)
            self._held_bytes = arrived_bytes
        self._body_bytes = arrived_bytes
        self._missing_bytes -= len(payload)
        self._message.write(payload)
        return self._missing_bytes == 0

    def _reserve(self) -> None:
        """Make room for the whole body, if the budget has it.

        Otherwise each of its frames may move to another place what came before it.
        """
        if self._budget.has_room(self._missing_bytes):
            self._budget.take(self._owner, self._missing_bytes)
            self._held_bytes = self._missing_bytes
            front = self._message.getvalue()
            self._message = BytesIO(bytes(len(front) + self._missing_bytes))
            self._message.write(front)

    def release(self) -> None:
        """Release the body's bytes from the budget: it is complete or abandoned."""
        self._budget.release(self._owner, self._held_bytes)


def _unreadable_header(payload: bytes, flags: int) -> FieldSyntaxError:
    """Return the error for headers that cannot be decoded; it names the first such header."""
    at = headers_position(payload, _LIST_AT, flags) + 4
    end = at + int.from_bytes(payload[at - 4 : at], "big")
    key_at = readable_end(payload, at, end) + 1
    key = payload[key_at : min(key_at + payload[key_at - 1], end)]
    return FieldSyntaxError(
        f"malformed content header: header '{key.decode(errors='replace')}' cannot be decoded",
        *_PUBLISH,
    )


def _message_flags(payload: bytes, flags: int) -> int:
    message_flags = 0
    if flags >> 12 & 1 and payload[delivery_mode_position(payload, _LIST_AT, flags)] == 2:
        message_flags = PERSISTENT
    for bit, flag in ((13, HAS_HEADERS), (8, HAS_EXPIRATION), (11, HAS_PRIORITY)):
        if flags >> bit & 1:
            message_flags |= flag
    return message_flags
