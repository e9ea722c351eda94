"""Errors for frames that come where they may not, or say nothing that can be read.

Source: RabbitMQ, rabbit_reader (unexpected_frame) and rabbit_misc (frame_error).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.protocol import framing
from amqp_server.protocol.errors import FrameError, UnexpectedFrame
from amqp_server.protocol.frame_text import binary_text, frame_text
from amqp_server.protocol.methods import BasicAck, BasicPublish

if TYPE_CHECKING:
    from amqp_server.protocol.errors import FieldSyntaxError

_FRAME_TYPES = {framing.HEADER: 2, framing.BODY: 3, framing.HEARTBEAT: 8}


def failed_method(event: tuple[Any, ...]) -> tuple[int, int]:
    """Return class and method of an event that carries one."""
    if event[0] == framing.PUBLISH:
        return BasicPublish.class_id, BasicPublish.method_id
    if event[0] == framing.ACK:
        return BasicAck.class_id, BasicAck.method_id
    return int.from_bytes(event[2][:2], "big"), int.from_bytes(event[2][2:4], "big")


def unexpected_frame(event: tuple[Any, ...]) -> UnexpectedFrame:
    """Return the error for a frame that this channel, or this moment, has no use for."""
    kind = event[0]
    if kind == framing.ACK:
        first, last = event[2][0], event[2][1]
        payload = BasicAck(delivery_tag=first or last, multiple=not first).encode()
    else:
        payload = b"" if kind == framing.HEARTBEAT else event[2]
    return UnexpectedFrame(frame_text(_FRAME_TYPES.get(kind, 1), payload))


def undecodable(payload: bytes, cause: FieldSyntaxError) -> FrameError:
    """Return the error for a method whose arguments break their grammar."""
    error = FrameError(f"cannot decode {binary_text(payload[4:])}")
    error.__cause__ = cause
    return error.with_method(cause.class_id, cause.method_id)
