"""Where the messages of a `basic.publish` frame go, remembered for all channels of a virtual host.

A client sends the same few frames again and again, or one for each of its routing keys: decoding
and routing them is done once for the octets of a frame, until an exchange on their way changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_server.broker.consuming.direct_reply import reply_keys_of
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.recently_used import RecentlyUsed
from amqp_server.protocol.errors import AccessRefused, NotFound, NotImplementedAmqp
from amqp_server.protocol.methods import BasicPublish, decode_method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost

TARGETS_MAX = 16_384
"""Publish frames whose routing is remembered for sure: one for each routing key in use.

Twice as many at most, of half a kilobyte each (1.2 with the longest names).
"""


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """Where the messages of one `basic.publish` frame go.

    Attributes:
        exchange: Where they are published.
        routing_key: With which key.
        mandatory: Whether they come back when no queue takes them.
        routes_singly: Whether each may go another way.
        queues: Where they go, if not.
        reply_keys: Which askers get them.
        is_plain: Whether going into these queues is all that happens to them.
        routes_version: The exchange's when this was found; it holds while they are equal.
    """

    exchange: Exchange
    routing_key: str
    mandatory: bool
    routes_singly: bool
    queues: Sequence[Queue]
    reply_keys: tuple[str, ...]
    is_plain: bool
    routes_version: int


class PublishTargets:
    """The targets of one virtual host.

    Args:
        virtual_host: Its exchanges and queues. The `routes_version` of an exchange says whether a
            target that was found is still right.
    """

    def __init__(self, virtual_host: VirtualHost) -> None:
        self._virtual_host = virtual_host
        self._targets = RecentlyUsed[bytes, PublishTarget](TARGETS_MAX)

    def recent(self) -> dict[bytes, PublishTarget]:
        """Return targets that were used last, by method payload; not to be changed or kept.

        The caller compares the `routes_version` of each with that of its exchange.
        """
        return self._targets.recent

    def forget_all(self) -> None:
        """Forget all targets."""
        self._targets.clear()

    def find(self, method_payload: bytes) -> PublishTarget:
        """Return where the messages of a frame go.

        Raises:
            AmqpError: The exchange is missing or refuses, or the method asks for what is not
                implemented.
        """
        target = self._targets.get(method_payload)
        if target is None or target.routes_version != target.exchange.routes_version:
            target = self._resolve(method_payload)
            # A queue that is declared later under the key would not end what is remembered here.
            has_queue = target.routing_key in self._virtual_host.queues
            if target.exchange.name or has_queue or target.reply_keys:
                self._targets.put(method_payload, target)
        return target

    def _resolve(self, method_payload: bytes) -> PublishTarget:
        method = decode_method(method_payload)
        assert isinstance(method, BasicPublish), "a run carries basic.publish"
        if method.immediate:
            raise NotImplementedAmqp("immediate=true", 60, 40)
        vhost = self._virtual_host
        exchange = vhost.exchanges.get(method.exchange)
        if exchange is None:
            raise NotFound(f"no exchange '{method.exchange}' in vhost '{vhost.name}'", 60, 40)
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'",
                60,
                40,
            )
        singly = vhost.routing.routes_singly(exchange)
        key = method.routing_key
        queues = () if singly else vhost.routing.route(exchange, Envelope((key,)))
        replies = reply_keys_of(exchange, (key,))
        return PublishTarget(
            exchange,
            key,
            method.mandatory,
            singly,
            queues,
            replies,
            is_plain=not singly and not replies and (bool(queues) or not method.mandatory),
            routes_version=exchange.routes_version,
        )
