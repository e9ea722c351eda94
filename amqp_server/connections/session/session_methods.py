"""Methods on channels: the handler of each, its steps, and the reply that it awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, cast

from amqp_server.connections.failed_methods import as_refusal, log_failed_method
from amqp_server.connections.handlers import HANDLERS
from amqp_server.protocol.errors import (
    AmqpError,
    CommandInvalid,
    FrameError,
    InternalError,
    SoftError,
)
from amqp_server.protocol.methods import (
    BasicGet,
    BasicPublish,
    BasicQos,
    QueueBind,
    QueueDeclare,
    decode_method,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.connections.handlers.handler import MethodSteps
    from amqp_server.connections.reply_queue import ReplyQueue
    from amqp_server.connections.session.session_closing import EndingSession, SessionClosing
    from amqp_server.protocol.framing import MethodFrame
    from amqp_server.protocol.methods import Method

SEE_LOG: Final = "internal error, see the server's log"
"""Text of the error that a client gets when the server is to blame."""


REMEMBERED_MAX: Final = 1024
"""Methods that are remembered with their octets, of all clients."""
REMEMBERED_BYTES_MAX: Final = 256
"""Most octets of a method that is remembered."""
_REPEATED: Final = frozenset(
    method.identity for method in (BasicGet, BasicQos, QueueDeclare, QueueBind)
)
"""Methods of which clients send the same octets again and again."""


def _decoded(payload: bytes) -> Method:
    """Return the method of a frame.

    Raises:
        FrameError: A text is not UTF-8, or the arguments cannot be decoded.
    """
    method = decode_method(payload)
    if not method.is_utf8:
        raise FrameError("Malformed UTF-8 in shortstr")
    return method


_remembered: Final = lru_cache(REMEMBERED_MAX)(_decoded)
"""As `_decoded`; the result is shared, and nothing may change it."""


class SessionMethods:
    """Handles the methods of one session's channels.

    The session passes itself to each method: a reference back would make both garbage in a cycle.

    Args:
        replies: Replies that wait until a method is done.
        closing: Closes the channel or the session of a method that fails.
    """

    def __init__(self, replies: ReplyQueue, closing: SessionClosing) -> None:
        self._replies = replies
        self._closing = closing

    def handle(
        self, session: EndingSession, channel: Channel, event: MethodFrame
    ) -> Iterator[None] | None:
        """Handle a method; return the steps that are left of it, or None."""
        if event.payload.startswith(BasicPublish.identity):
            channel.publishing.check_target(event.payload)
            return None
        payload = event.payload
        is_repeated = event.identity in _REPEATED and len(payload) <= REMEMBERED_BYTES_MAX
        method = _remembered(payload) if is_repeated else _decoded(payload)
        handler = HANDLERS.get(type(method))
        if handler is None:
            # The client sent a method that only a server sends, or one that belongs on channel 0.
            raise CommandInvalid("unimplemented method").with_method(*method.ids)
        try:
            reply = handler(channel, method)
        except AmqpError as error:
            raise error.with_method(method.class_id, method.method_id) from error.__cause__
        if reply is None:
            return None
        if isinstance(reply, Awaitable):
            # Asked first: an awaitable may be an iterator too.
            self._await_reply(session, channel, method, reply)
            return None
        # The result of a plain iterator is None.
        return self._take_steps(session, channel, method, cast("MethodSteps", reply))

    def _take_steps(
        self, session: EndingSession, channel: Channel, method: Method, steps: MethodSteps
    ) -> Iterator[None]:
        """Take all steps of a method, then wait for what is left; an error names the method."""
        try:
            reply = yield from steps
        except AmqpError as error:
            raise error.with_method(method.class_id, method.method_id) from error.__cause__
        if reply is not None:
            self._await_reply(session, channel, method, reply)

    def _await_reply(
        self,
        session: EndingSession,
        channel: Channel,
        method: Method,
        reply: Awaitable[Method | None],
    ) -> None:
        waiting = asyncio.ensure_future(reply)
        send = partial(self._finish, session, channel, method, waiting)
        self._replies.wait(session, waiting, send, method.identity)

    def _finish(
        self,
        session: EndingSession,
        channel: Channel,
        method: Method,
        done: asyncio.Future[Method | None],
    ) -> None:
        """Send the reply of a method that waited for the disk, or its error."""
        if done.cancelled():
            return
        error = as_refusal(done.exception())
        if error is None:
            reply = done.result()
            if reply is not None and not channel.is_closed:
                channel.send(reply)
        elif isinstance(error, SoftError):
            error = error.with_method(method.class_id, method.method_id)
            self._closing.close_channel(session, channel.number, error)
        else:
            log_failed_method(session.name, method, error)
            self._closing.fail(session, InternalError(SEE_LOG))
