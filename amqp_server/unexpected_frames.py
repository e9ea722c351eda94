"""Errors for misplaced or unreadable frames, and the close methods that carry errors.

Source: RabbitMQ, rabbit_reader (unexpected_frame) and rabbit_misc (frame_error).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.protocol import framing
from amqp_server.protocol.errors import ChannelError, FieldSyntaxError, FrameError, UnexpectedFrame
from amqp_server.protocol.frame_text import binary_text, frame_text
from amqp_server.protocol.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    decode_method,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.broker.channel import Channel
    from amqp_server.protocol.connection_machine import ConnectionMachine
    from amqp_server.protocol.errors import AmqpError, HardError, SoftError

_METHOD_FRAME = b"\x01"
_PUBLISH_BYTES_MIN = 17
_FRAME_TYPES = {framing.HEADER: 2, framing.BODY: 3, framing.HEARTBEAT: 8}


def failed_method(event: tuple[Any, ...]) -> tuple[int, int]:
    """Return class id and method id of an event that carries a method."""
    if event[0] in (framing.PUBLISH, framing.ROW):
        return BasicPublish.ids
    if event[0] == framing.ACK:
        return BasicAck.ids
    return int.from_bytes(event[2][:2], "big"), int.from_bytes(event[2][2:4], "big")


def unexpected_frame(event: tuple[Any, ...]) -> UnexpectedFrame:
    """Return the error for a frame that is not allowed on its channel or at this moment."""
    kind = event[0]
    if kind == framing.ACK:
        first, last = event[2][0], event[2][1]
        payload = BasicAck(delivery_tag=first or last, multiple=not first).encode()
    elif kind == framing.ROW:
        payload = event[2][0]
    else:
        payload = b"" if kind == framing.HEARTBEAT else event[2]
    return UnexpectedFrame(frame_text(_FRAME_TYPES.get(kind, 1), payload))


def misplaced_publish(
    buffer: bytes | bytearray, at: int, end: int, channels: Mapping[int, Channel]
) -> tuple[Any, ...] | None:
    """Return the event of a publish that is wrong before its content has arrived, or None.

    The scanner waits for a whole publish. On channel 0, or where the content of another publish is
    due, the client may already wait for the error.

    Args:
        buffer: Octets that were read.
        at: Start of the octets that the scanner left over.
        end: End of the octets that were read.
        channels: The connection's open channels, by number.
    """
    if end - at < _PUBLISH_BYTES_MIN or buffer[at : at + 1] != _METHOD_FRAME:
        return None
    stop = at + 8 + int.from_bytes(buffer[at + 3 : at + 7], "big")
    if stop != end or buffer[at + 7 : at + 11] != BasicPublish.identity:
        return None
    number = int.from_bytes(buffer[at + 1 : at + 3], "big")
    channel = channels.get(number)
    if number != 0 and (channel is None or not channel.publishing.is_unfinished):
        return None
    return framing.METHOD, number, bytes(buffer[at + 7 : stop - 1])


def check_opens_channel(event: tuple[Any, ...], machine: ConnectionMachine) -> None:
    """Check that an event on a channel that is not open is channel.open.

    Raises:
        HardError: The event is another one, or it arrived on channel 0.
    """
    kind, number = event[0], event[1]
    if kind in (framing.HEADER, framing.BODY):
        if number == 0:
            raise unexpected_frame(event)
        raise UnexpectedFrame("expected method frame, got non method frame instead")
    if number == 0:
        raise machine.unexpected(*failed_method(event))
    method = decode_method(event[2]) if kind == framing.METHOD else None
    if not isinstance(method, ChannelOpen):
        raise ChannelError("expected 'channel.open'", *failed_method(event))


def channel_close(error: SoftError) -> ChannelClose:
    """Return the channel.close that carries an error."""
    return ChannelClose(
        reply_code=int(error.reply_code),
        reply_text=error.reply_text,
        class_id_=error.class_id,
        method_id_=error.method_id,
    )


def connection_close(error: AmqpError) -> ConnectionClose:
    """Return the connection.close that carries an error."""
    return ConnectionClose(
        reply_code=int(error.reply_code),
        reply_text=error.reply_text,
        class_id_=error.class_id,
        method_id_=error.method_id,
    )


def close_error_for(event: tuple[Any, ...], cause: HardError) -> AmqpError:
    """Return the error for the peer; one about undecodable arguments quotes the octets."""
    if not isinstance(cause, FieldSyntaxError) or event[0] != framing.METHOD:
        return cause
    error = FrameError(f"cannot decode {binary_text(event[2][4:])}")
    error.__cause__ = cause
    return error.with_method(cause.class_id, cause.method_id)
