"""The close methods that carry errors to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.errors import FieldSyntaxError, FrameError
from amqp_server.protocol.frame_text import binary_text
from amqp_server.protocol.framing import MethodFrame
from amqp_server.protocol.methods import ChannelClose, ConnectionClose

if TYPE_CHECKING:
    from amqp_server.protocol.errors import AmqpError, HardError, SoftError
    from amqp_server.protocol.framing import Event


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
