"""Answering a method: at once, or when the disk has what the answer promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from amqp_server.broker.channel import Channel
    from amqp_server.protocol.methods import Method


def answer(
    channel: Channel,
    reply: Method | None,
    after: Awaitable[None] | None = None,
    notices: Sequence[Method] = (),
) -> Awaitable[Method | None] | None:
    """Send a reply, unless the client asked for none.

    Args:
        channel: Where to.
        reply: The reply; None sends nothing.
        after: What must be done first, or None.
        notices: What the same channel learns of the same change: sent behind the reply, or when
            it would be due. Not sent if `after` fails.

    Returns:
        What the connection has to wait for, with the reply that is due then; None when there is
        nothing to wait for.
    """
    if after is not None:
        return _answer_after(channel, reply, after, notices)
    if reply is not None:
        channel.reply(reply)
    _send_in_turn(channel, notices)
    return None


async def _answer_after(
    channel: Channel, reply: Method | None, after: Awaitable[None], notices: Sequence[Method]
) -> Method | None:
    await after
    # The reply stands in the client's line until this returns, so these come behind it.
    _send_in_turn(channel, notices)
    return reply


def _send_in_turn(channel: Channel, notices: Sequence[Method]) -> None:
    for notice in notices:
        channel.reply(notice)
