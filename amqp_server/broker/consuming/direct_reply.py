"""Direct reply-to: replies that go straight to the requesting channel, without a queue.

A channel that consumes `amq.rabbitmq.reply-to` gets a secret routing key of its own. Its requests
carry that key as `reply_to`. A reply that is published with this key through the default exchange
reaches the channel at most once: the broker does not store it. While the client does not read,
the broker keeps replies in memory up to a limit.

Source: RabbitMQ, "Direct Reply-to"; `rabbit_channel`.
"""

from __future__ import annotations

from base64 import b64encode
from secrets import token_bytes
from typing import TYPE_CHECKING, Protocol

from amqp_server.protocol.strings import encode_shortstr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.exchange import Exchange

DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
"""Queue name that requesters consume from and give as `reply_to`."""
_PREFIX = DIRECT_REPLY_TO + "."
_PART_BYTES = 16
"""Octets whose base64 form ends with `==`, as RabbitMQ's does."""


def reply_keys_of(exchange: Exchange, routing_keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of a message's routing keys that are reply keys."""
    if exchange.name:
        return ()
    return tuple(key for key in routing_keys if key.startswith(_PREFIX))


class ReplyChannel(Protocol):
    """A channel, as its consumer of replies sees it."""

    @property
    def is_deliverable(self) -> bool:
        """Whether replies may be sent now."""

    def deliver_replies(self, consumer_tag: bytes, messages: list[bytes]) -> None:
        """Send replies; the client does not acknowledge them."""


class ReplyConsumer:
    """One channel that consumes replies.

    Args:
        tag: Consumer tag.
        channel: Channel that the replies go out on.
        waiting_bytes_max: Most bytes of replies that are kept while the client does not read.

    Attributes:
        routing_key: Secret routing key of the replies.
        key_octets: The same as a short string, as requests carry it in their reply-to.
        waiting_bytes: Bytes of the replies that are kept until the client reads.
    """

    def __init__(self, tag: str, channel: ReplyChannel, waiting_bytes_max: int) -> None:
        self.tag = tag
        # Two parts, because clients know RabbitMQ's form, where they are a process and a key.
        self.routing_key = f"{_PREFIX}{_random_part()}.{_random_part()}"
        self.key_octets = encode_shortstr(self.routing_key)
        self._tag_octets = tag.encode("utf-8", "surrogateescape")
        self._channel = channel
        self._waiting: list[bytes] = []
        self.waiting_bytes = 0
        self._waiting_bytes_max = waiting_bytes_max

    def deliver(self, messages: list[bytes]) -> bool:
        """Send replies, or keep them until the client reads; return whether there was room."""
        if not self._waiting and self._channel.is_deliverable:
            self._channel.deliver_replies(self._tag_octets, messages)
            return True
        new_bytes = sum(map(len, messages))
        if self.waiting_bytes + new_bytes > self._waiting_bytes_max:
            return False
        self._waiting += messages
        self.waiting_bytes += new_bytes
        return True

    def wake(self) -> None:
        """Send the replies that were kept, if the client reads again."""
        if self._waiting and self._channel.is_deliverable:
            waiting, self._waiting, self.waiting_bytes = self._waiting, [], 0
            self._channel.deliver_replies(self._tag_octets, waiting)


def _random_part() -> str:
    return b64encode(token_bytes(_PART_BYTES)).decode()


class DirectReplies:
    """The reply consumers of one virtual host."""

    def __init__(self) -> None:
        self._consumers: dict[str, ReplyConsumer] = {}

    def add(self, consumer: ReplyConsumer) -> None:
        """Route replies to a consumer."""
        self._consumers[consumer.routing_key] = consumer

    def remove(self, consumer: ReplyConsumer) -> None:
        """Stop routing replies to a consumer."""
        del self._consumers[consumer.routing_key]

    def exists(self, name: str) -> bool:
        """Return whether a name leads to a reply consumer; the common name always does."""
        return name == DIRECT_REPLY_TO or name in self._consumers

    def deliver(self, routing_keys: Sequence[str], messages: list[bytes]) -> bool:
        """Send replies to those consumers that still exist; return whether one took them."""
        if len(routing_keys) == 1:
            consumer = self._consumers.get(routing_keys[0])
            return consumer is not None and consumer.deliver(messages)
        # A message may name a key twice.
        consumers = {self._consumers[key] for key in routing_keys if key in self._consumers}
        taken = [consumer.deliver(messages) for consumer in consumers]
        return any(taken)
