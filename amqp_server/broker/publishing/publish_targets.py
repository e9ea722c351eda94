"""Cache of the routes of `basic.publish` frames, shared by all channels of a virtual host.

A client sends the same few publish frames again and again, or one for each routing key. So the
broker decodes and routes the octets of a frame once, until an exchange on the route changes.
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
"""Publish frames whose routes are kept for certain: one for each routing key in use.

There may be up to twice as many, of half a kilobyte each (1.2 with the longest names).
"""


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """Where the messages of one `basic.publish` frame go.

    Attributes:
        exchange: Exchange that they are published to.
        routing_key: Routing key of the frame.
        mandatory: Whether they are returned when no queue takes them.
        routes_singly: Whether each message may have another route.
        queues: Queues that take them, unless `routes_singly`.
        reply_keys: Routing keys of the reply consumers that get them.
        is_plain: Whether appending them to `queues` is all there is to do.
        routes_version: `routes_version` of the exchange when the route was found; the target
            is valid while the two are equal.
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
    """The publish targets of one virtual host.

    Args:
        virtual_host: Virtual host of the targets. The `routes_version` of an exchange says whether
            a cached target is still valid.
    """

    def __init__(self, virtual_host: VirtualHost) -> None:
        self._virtual_host = virtual_host
        self._targets = RecentlyUsed[bytes, PublishTarget](TARGETS_MAX)

    def recent(self) -> dict[bytes, PublishTarget]:
        """Return the most recently used targets by method payload; do not change or keep it.

        The caller compares the `routes_version` of each target with that of its exchange.
        """
        return self._targets.recent

    def forget_all(self) -> None:
        """Clear the cache."""
        self._targets.clear()

    def find(self, method_payload: bytes) -> PublishTarget:
        """Return the target of a frame.

        Raises:
            NotFound: The exchange does not exist.
            AccessRefused: The exchange is internal.
            NotImplementedAmqp: The frame sets `immediate`.
        """
        target = self._targets.get(method_payload)
        if target is None or target.routes_version != target.exchange.routes_version:
            target = self._resolve(method_payload)
            # Do not cache the route to a missing queue: a later declare of the queue would not
            # end it.
            has_queue = target.routing_key in self._virtual_host.queues
            if target.exchange.name or has_queue or target.reply_keys:
                self._targets.put(method_payload, target)
        return target

    def _resolve(self, method_payload: bytes) -> PublishTarget:
        method = decode_method(method_payload)
        assert isinstance(method, BasicPublish), "a run must carry basic.publish"
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
