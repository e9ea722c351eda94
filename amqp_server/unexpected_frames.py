"""Errors for misplaced or unreadable frames, and the close methods that carry errors.

Source: RabbitMQ, rabbit_reader (unexpected_frame) and rabbit_misc (frame_error).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from amqp_server.protocol.constants import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)
from amqp_server.protocol.errors import ChannelError, FieldSyntaxError, FrameError, UnexpectedFrame
from amqp_server.protocol.frame_text import binary_text, frame_text
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
    from amqp_server.protocol.framing import Event

_METHOD_FRAME = b"\x01"
_PUBLISH_BYTES_MIN = 17


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


def misplaced_publish(
    buffer: bytes | bytearray, at: int, end: int, channels: Mapping[int, Channel]
) -> MethodFrame | None:
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
    return MethodFrame(number, bytes(buffer[at + 7 : stop - 1]))


def check_opens_channel(event: Event, machine: ConnectionMachine) -> None:
    """Check that an event on a channel that is not open is channel.open.

    Raises:
        HardError: The event is another one, or it arrived on channel 0.
    """
    if isinstance(event, ContentHeader | ContentBody):
        if event.channel == 0:
            raise unexpected_frame(event)
        raise UnexpectedFrame("expected method frame, got non method frame instead")
    if event.channel == 0:
        raise machine.unexpected(*failed_method(event))
    method = decode_method(event.payload) if isinstance(event, MethodFrame) else None
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


def close_error_for(event: Event | None, cause: HardError) -> AmqpError:
    """Return the error for the peer; one about undecodable arguments quotes the octets."""
    if not isinstance(cause, FieldSyntaxError) or not isinstance(event, MethodFrame):
        return cause
    error = FrameError(f"cannot decode {binary_text(event.payload[4:])}")
    error.__cause__ = cause
    return error.with_method(cause.class_id, cause.method_id)
