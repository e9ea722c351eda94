"""Consuming from `amq.rabbitmq.reply-to` (direct reply-to)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from secrets import token_bytes
from typing import TYPE_CHECKING

from amqp_server.broker.consuming.direct_reply import ReplyConsumer
from amqp_server.protocol.errors import NotAllowed, PreconditionFailed
from amqp_server.protocol.methods import BasicConsumeOk

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.protocol.methods import BasicConsume


def consume_replies(channel: Channel, method: BasicConsume) -> None:
    """Start to deliver replies; there is nothing to acknowledge, as the broker does not keep them.

    Raises:
        NotAllowed: The consumer tag is in use.
        PreconditionFailed: The consumer would acknowledge, or the channel has one already.
    """
    tag = method.consumer_tag
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    if channel.reply_consumer is not None:
        raise PreconditionFailed("reply consumer already set")
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    consumer = ReplyConsumer(
        tag or "amq.ctag-" + urlsafe_b64encode(token_bytes(16)).rstrip(b"=").decode(),
        channel,
        channel.broker.config.limits.waiting_reply_bytes_per_channel_max,
    )
    channel.reply_consumer = consumer
    channel.virtual_host.replies.add(consumer)
    if not method.no_wait:
        channel.send(BasicConsumeOk(consumer_tag=consumer.tag))
