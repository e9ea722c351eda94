"""The error for a frame that may not come, and the method that an event carries.

Source: RabbitMQ, rabbit_reader (unexpected_frame).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from amqp_server.protocol.constants import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)
from amqp_server.protocol.errors import UnexpectedFrame
from amqp_server.protocol.frame_text import frame_text
from amqp_server.protocol.framing import (
    AckRun,
    BrokenFrame,
    ContentBody,
    ContentHeader,
    HeartbeatFrame,
    MethodFrame,
    PublishRow,
    PublishRun,
)
from amqp_server.protocol.methods import (
    BasicAck,
)

if TYPE_CHECKING:
    from amqp_server.protocol.framing import Event


def failed_method(event: Event) -> tuple[int, int]:
    """Return class id and method id of an event that carries a method."""
    identity = event.identity
    return int.from_bytes(identity[:2], "big"), int.from_bytes(identity[2:], "big")


def unexpected_frame(event: Event) -> UnexpectedFrame:
    """Return the error for a frame that is not allowed on its channel or at this moment."""
    kind, payload = FRAME_METHOD, b""
    match event:
        case PublishRun():
            payload = event.method_payload
        case PublishRow():
            payload = event.method_payloads[0]
        case AckRun():
            first, last = event.ranges[:2]
            payload = BasicAck(delivery_tag=first or last, multiple=not first).encode()
        case MethodFrame():
            payload = event.payload
        case ContentHeader():
            kind, payload = FRAME_HEADER, event.payload
        case ContentBody():
            kind, payload = FRAME_BODY, event.payload
        case HeartbeatFrame():
            kind = FRAME_HEARTBEAT
        case BrokenFrame():
            raise AssertionError("octets that are no frame have an error of their own")
        case _:
            assert_never(event)
    return UnexpectedFrame(frame_text(kind, payload))
