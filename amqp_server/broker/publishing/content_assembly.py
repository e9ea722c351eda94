"""Content that arrives frame by frame: a publish that no run of the scanner took.

Large messages, bodies cut into several frames and publishes torn by frames of other
channels come this way; so do all the wrong orders of frames, which end the connection with
505 as the specification asks, and bodies that are too long (501).

Source: AMQP 0-9-1 specification, section 4.2.6; texts as in RabbitMQ's command assembler.
"""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING

from amqp_server.protocol.errors import (
    FieldSyntaxError,
    FrameError,
    PreconditionFailed,
    ResourceError,
    UnexpectedFrame,
)
from amqp_server.protocol.framing import delivery_mode_position, property_list_end
from appendlog.layout.message import (
    HAS_EXPIRATION,
    HAS_HEADERS,
    HAS_PRIORITY,
    PERSISTENT,
    encode_message,
)

if TYPE_CHECKING:
    from amqp_server.protocol.methods import BasicPublish

_BASIC_CLASS = 60
_PUBLISH = (60, 40)


class AssemblyBudget:
    """Bytes of bodies that have begun to arrive, of all connections together.

    When they are too many, whoever holds more than a fair share (the whole, divided by those
    that hold anything) gets nothing more: one client that fills it all does not keep the others
    from publishing. So all together hold twice `bytes_max` at the very most.

    Args:
        bytes_max: How many there may be.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._held_bytes_by_owner: dict[object, int] = {}

    def take(self, owner: object, count: int) -> None:
        """Count more bytes of a connection.

        Raises:
            ResourceError: There would be too many, and this connection has its share.
        """
        held_bytes = self._held_bytes_by_owner.get(owner, 0) + count
        if self.held_bytes + count > self.bytes_max:
            owners = len(self._held_bytes_by_owner.keys() | {owner})
            if held_bytes > self.bytes_max // owners:
                raise ResourceError(
                    f"unfinished messages of this connection hold {held_bytes} bytes, more than "
                    f"its share of the {self.bytes_max} that are allowed in all",
                    *_PUBLISH,
                )
        self.held_bytes += count
        self._held_bytes_by_owner[owner] = held_bytes

    def release(self, owner: object, count: int) -> None:
        """Count fewer bytes of a connection."""
        self.held_bytes -= count
        left = self._held_bytes_by_owner.get(owner, 0) - count
        if left > 0:
            self._held_bytes_by_owner[owner] = left
        else:
            self._held_bytes_by_owner.pop(owner, None)


class ContentAssembly:
    """Collects the header and body frames of one publish.

    Args:
        method: The publish that announced content.
        method_payload: Its octets, for the routing cache.
        message_bytes_max: Largest body that is accepted.
        budget: What all unfinished bodies share.
        owner: The connection that publishes it.
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
        self.property_flags = 0
        self.message_flags = 0
        self._message_bytes_max = message_bytes_max
        self._budget = budget
        self._owner = owner
        self._properties: bytes | None = None
        self._body = bytearray()
        self._missing_bytes = 0

    @property
    def out_of_place(self) -> UnexpectedFrame:
        """The error for a frame that is not the next part of this content."""
        if self._properties is not None:
            text = "expected content body, got non content body frame instead"
        else:
            text = (
                f"expected content header for class {_BASIC_CLASS}, "
                "got non content header frame instead"
            )
        return UnexpectedFrame(text, *_PUBLISH)

    @property
    def message(self) -> bytes:
        """The finished message."""
        assert self._properties is not None, "asked for a message without its header"
        method = self.method
        return encode_message(
            self.message_flags,
            method.exchange.encode("utf-8", "surrogateescape"),
            method.routing_key.encode("utf-8", "surrogateescape"),
            self._properties,
            bytes(self._body),
        )

    def take_header(self, payload: bytes) -> bool:
        """Take the content header; return whether the message is whole (an empty body).

        Raises:
            UnexpectedFrame: There was one already, or it is of another class.
            FieldSyntaxError: It does not hold together.
            PreconditionFailed: The body would be larger than allowed; its frames follow and
                are to be discarded.
        """
        if self._properties is not None:
            raise self.out_of_place
        if len(payload) < 14:
            raise FieldSyntaxError("malformed content header", *_PUBLISH)
        class_id, weight, body_bytes, flags = unpack_from(">HHQH", payload)
        if class_id != _BASIC_CLASS:
            raise UnexpectedFrame(
                f"expected content header for class {_BASIC_CLASS}, "
                f"got one for class {class_id} instead",
                *_PUBLISH,
            )
        if weight:
            raise self.out_of_place
        if flags & 3 or property_list_end(payload, 14, len(payload), flags) != len(payload):
            raise FieldSyntaxError("malformed content header", *_PUBLISH)
        if body_bytes > self._message_bytes_max:
            raise PreconditionFailed(
                f"message size {body_bytes} is larger than configured max size "
                f"{self._message_bytes_max}",
                *_PUBLISH,
            )
        self._properties = payload[12:]
        self._missing_bytes = body_bytes
        self.property_flags = flags
        self.message_flags = _message_flags(payload, flags)
        return self._missing_bytes == 0

    def take_body(self, payload: bytes) -> bool:
        """Take a body frame; return whether the message is whole.

        Raises:
            UnexpectedFrame: No header came before.
            FrameError: The body is larger than its header announced.
            ResourceError: All unfinished bodies together are too large, and this connection's
                are more than its share.
        """
        if self._properties is None:
            raise self.out_of_place
        if len(payload) > self._missing_bytes:
            raise FrameError("content body frame exceeds remaining content size", *_PUBLISH)
        self._budget.take(self._owner, len(payload))
        self._missing_bytes -= len(payload)
        self._body += payload
        return self._missing_bytes == 0

    def release(self) -> None:
        """Give back what the body took of the budget; it is finished or given up."""
        self._budget.release(self._owner, len(self._body))


def _message_flags(payload: bytes, flags: int) -> int:
    message_flags = 0
    if flags >> 12 & 1 and payload[delivery_mode_position(payload, 14, flags)] == 2:
        message_flags = PERSISTENT
    for bit, flag in ((13, HAS_HEADERS), (8, HAS_EXPIRATION), (11, HAS_PRIORITY)):
        if flags >> bit & 1:
            message_flags |= flag
    return message_flags
