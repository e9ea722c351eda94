"""Replies to a method: at once, or when the disk holds what the reply confirms."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.methods import Method

MethodT = TypeVar("MethodT", bound="Method")


def send_reply(
    channel: Channel,
    reply: Method | None,
    after: Awaitable[None] | None = None,
    notices: Sequence[Method] = (),
) -> Awaitable[Method | None] | None:
    """Send a reply, unless the client asked for none.

    Args:
        channel: Channel of the method.
        reply: The reply; None sends nothing.
        after: Awaited before the reply, or None.
        notices: Notices of the same change for the same channel, sent after the reply. They are
            not sent if `after` fails.

    Returns:
        What the connection has to await, with the reply as its result; None if the reply is
        sent already.
    """
    if after is not None:
        return _reply_after(channel, reply, after, notices)
    if reply is not None:
        channel.reply(reply)
    _send_after(channel, notices)
    return None


async def when_up_to_date(
    queue: Queue,
    channel: Channel,
    handler: Callable[[Channel, MethodT], Awaitable[Method | None] | None],
    method: MethodT,
) -> Method | None:
    """Handle a method again when the expired messages of its queue are gone.

    Only for methods that the connection handles alone: nothing that the client sent later may
    come before.

    Args:
        queue: Queue that is not up to date.
        channel: Channel of the method.
        handler: Handler that has changed nothing yet; it looks up everything again.
        method: The method.
    """
    await queue.until_up_to_date()
    if channel.is_closed:
        return None
    done = handler(channel, method)
    return None if done is None else await done


async def _reply_after(
    channel: Channel, reply: Method | None, after: Awaitable[None], notices: Sequence[Method]
) -> Method | None:
    await after
    # The client's reply queue keeps a place for the reply, so the notices come after it.
    _send_after(channel, notices)
    return reply


def _send_after(channel: Channel, notices: Sequence[Method]) -> None:
    for notice in notices:
        channel.reply(notice)
