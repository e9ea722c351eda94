"""Answering a method: at once, or when the disk has what the answer promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.channel import Channel
    from amqp_server.protocol.methods import Method


def answer(
    channel: Channel, reply: Method | None, after: Awaitable[None] | None = None
) -> Awaitable[Method | None] | None:
    """Send a reply, unless the client asked for none.

    Args:
        channel: Where to.
        reply: The reply; None sends nothing.
        after: What must be done first, or None.

    Returns:
        What the connection has to wait for, with the reply that is due then; None when there is
        nothing to wait for.
    """
    if after is not None:
        return _answer_after(reply, after)
    if reply is not None:
        channel.reply(reply)
    return None


async def _answer_after(reply: Method | None, after: Awaitable[None]) -> Method | None:
    await after
    return reply
