"""Where `basic.publish` frames lead, shared by all channels of a virtual host.

A client sends the same few publish frames again and again, or one with a routing key of its own for
each message. Frames that come again are remembered whole. For the others it is remembered what
precedes the routing key, and the route tree of the exchange finds the rest. So routing keys that
never come again cost little, and take no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.consuming.direct_reply import reply_keys_of
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.recently_used import RecentlyUsed
from amqp_server.broker.routing.route_tree import QUEUES_PER_STEP, Route
from amqp_server.broker.routing.routing import TRIES_MAX, RoutingTables
from amqp_server.broker.routing.steps import result_of
from amqp_server.protocol.errors import AccessRefused, NotFound, NotImplementedAmqp
from amqp_server.protocol.methods import BasicPublish, decode_method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.routing import Routing
    from amqp_server.broker.routing.steps import Steps

FRAMES_MAX: Final = 16_384
"""Publish frames that are remembered for certain, of those that came again.

There may be up to twice as many, of half a kilobyte each (1.2 with the longest names). A frame for
many queues counts more: `QUEUES_PER_STEP` of them as much as a frame.
"""
HEADS_MAX: Final = 1024
"""Exchanges that are remembered for certain for each of a frame's flags; twice as many at most."""
ROUTES_MAX: Final = 16_384
"""Routes whose targets are remembered for certain, with `mandatory` and without; see `FRAMES_MAX`.
"""
_HEAD_FLAGS: Final = 3
"""The flags of a frame that make a difference: `mandatory` and `immediate`, which is refused."""
_SEEN_MASK: Final = FRAMES_MAX - 1
_EXCHANGE_AT: Final = 6
"""Position of the exchange's name: after class, method and a reserved word."""
_PAYLOAD_BYTES_MIN: Final = 9
"""Length of a frame's payload with two empty names."""


class PublishTarget:
    """Where the messages of a `basic.publish` frame go; frames of one route share it.

    Attributes:
        exchange: Exchange that they are published to.
        mandatory: Whether they are returned when no queue takes them.
        routes_singly: Whether each message may have another route.
        queues: Queues that take them, unless `routes_singly`.
        reply_keys: Routing keys of the reply consumers that get them.
        is_plain: Whether appending them to `queues` is all there is to do.
        routes_version: `routes_version` of the exchange when the route was found; the target
            is valid while the two are equal.
    """

    __slots__ = (
        "exchange",
        "is_plain",
        "mandatory",
        "queues",
        "reply_keys",
        "routes_singly",
        "routes_version",
    )

    def __init__(
        self,
        exchange: Exchange,
        mandatory: bool,
        routes_singly: bool,
        queues: Sequence[Queue],
        reply_keys: tuple[str, ...],
        is_plain: bool,
        routes_version: int,
    ) -> None:
        self.exchange = exchange
        self.mandatory = mandatory
        self.routes_singly = routes_singly
        self.queues = queues
        self.reply_keys = reply_keys
        self.is_plain = is_plain
        self.routes_version = routes_version


class _Head:
    """Frames that differ in nothing but the routing key, to one exchange that is not the default.

    Args:
        exchange: Exchange that they are published to.
        routes_version: `routes_version` of the exchange when `routes_singly` was found.
        mandatory: Whether messages without a queue are returned.
        routes_singly: Whether each message may have another route, whatever its key.
    """

    __slots__ = ("exchange", "mandatory", "routes_version", "single")

    def __init__(
        self, exchange: Exchange, routes_version: int, *, mandatory: bool, routes_singly: bool
    ) -> None:
        self.exchange = exchange
        self.mandatory = mandatory
        self.routes_version = routes_version
        self.single = self._target((), routes_singly=True) if routes_singly else None

    def target_of(self, route: Route) -> PublishTarget:
        """Return a new target of frames with this route."""
        return self._target(route.queues, routes_singly=False)

    def _target(self, queues: tuple[Queue, ...], *, routes_singly: bool) -> PublishTarget:
        return PublishTarget(
            self.exchange,
            self.mandatory,
            routes_singly,
            queues,
            (),
            is_plain=not routes_singly and (bool(queues) or not self.mandatory),
            routes_version=self.routes_version,
        )


def _weight(target: PublishTarget) -> int:
    """Return how much of a memory of targets one of them takes."""
    return 1 + len(target.queues) // QUEUES_PER_STEP


class PublishPlaces(RoutingTables, Protocol):
    """A virtual host, as publishes see it."""

    @property
    def name(self) -> str:
        """Name of the virtual host."""

    @property
    def routing(self) -> Routing:
        """Finds the routes of messages."""


class PublishTargets:
    """The publish targets of one virtual host.

    Args:
        virtual_host: Virtual host of the targets. The `routes_version` of an exchange says whether
            what is remembered of it is still valid.

    Attributes:
        forgotten_count: How often all targets were forgotten.
    """

    def __init__(self, virtual_host: PublishPlaces) -> None:
        self.forgotten_count = 0
        self._virtual_host = virtual_host
        self._frames = RecentlyUsed[bytes, PublishTarget](FRAMES_MAX, _weight)
        # By the name of their exchange, for each of the flags that they may have.
        self._heads = tuple(RecentlyUsed[bytes, _Head](HEADS_MAX) for _ in range(_HEAD_FLAGS + 1))
        # Targets of routes that a route tree remembers: without and with `mandatory`.
        self._targets = (
            RecentlyUsed[Route, PublishTarget](ROUTES_MAX, _weight),
            RecentlyUsed[Route, PublishTarget](ROUTES_MAX, _weight),
        )
        # Hashes of frames that came once: one that never comes again displaces no other.
        self._seen = [0] * (_SEEN_MASK + 1)

    def recent(self) -> dict[bytes, PublishTarget]:
        """Return the most recently used targets by method payload; do not change or keep it.

        The caller compares the `routes_version` of each target with that of its exchange.
        """
        return self._frames.recent

    def forget_all(self) -> None:
        """Forget all targets."""
        self.forgotten_count += 1
        self._frames.clear()
        for heads in self._heads:
            heads.clear()
        for targets in self._targets:
            targets.clear()

    def find_known(self, method_payload: bytes) -> PublishTarget | None:
        """Return the target of a frame if it is known, without a search of the bindings."""
        # Most are recent: without the call.
        target = self._frames.recent.get(method_payload) or self._frames.get(method_payload)
        if target is not None and target.routes_version == target.exchange.routes_version:
            return target
        length = len(method_payload)
        if length < _PAYLOAD_BYTES_MIN:
            return None
        key_at = _EXCHANGE_AT + 1 + method_payload[_EXCHANGE_AT]
        if key_at >= length or key_at + 2 + method_payload[key_at] != length:
            return None
        heads = self._heads[method_payload[-1] & _HEAD_FLAGS]
        head = heads.get(method_payload[_EXCHANGE_AT:key_at])
        if head is None or head.routes_version != head.exchange.routes_version:
            return None
        if head.single is not None:
            return head.single
        key = method_payload[key_at + 1 : -1].decode("utf-8", "surrogateescape")
        route = self._virtual_host.routing.known_route_of(head.exchange, key)
        if route is None:
            return None
        target = self._target_of(head, route)
        self._remember(method_payload, target)
        return target

    def _target_of(self, head: _Head, route: Route) -> PublishTarget:
        """Return the target of frames whose route a tree remembers."""
        targets = self._targets[head.mandatory]
        target = targets.get(route)
        if target is None:
            target = head.target_of(route)
            targets.put(route, target)
        return target

    def check(self, method_payload: bytes) -> None:
        """Check a frame without finding its route.

        Raises:
            NotFound: The exchange does not exist.
            AccessRefused: The exchange is internal.
            NotImplementedAmqp: The frame sets `immediate`.
        """
        if self.find_known(method_payload) is None:
            self._checked(method_payload)

    def checked_exchange(self, method_payload: bytes) -> Exchange:
        """Return the exchange of a frame that is not known; raises what `check` does."""
        return self._checked(method_payload)[1]

    def find(self, method_payload: bytes) -> PublishTarget:
        """Return the target of a frame at once; see `find_in_steps`."""
        return self.find_known(method_payload) or result_of(self.find_in_steps(method_payload))

    def find_in_steps(
        self, method_payload: bytes, visits_max: int | None = None
    ) -> Steps[PublishTarget]:
        """Return the steps that find the target of a frame that is not known.

        Args:
            method_payload: The frame's payload.
            visits_max: What one of its messages may meet on its way (`Envelope`).

        Raises:
            NotFound: The exchange does not exist.
            AccessRefused: The exchange is internal.
            NotImplementedAmqp: The frame sets `immediate`.
            PreconditionFailed: A message meets more than `visits_max`.
        """
        routing = self._virtual_host.routing
        for _ in range(TRIES_MAX):
            method, exchange = self._checked(method_payload)
            if not exchange.name:
                return self._resolve_default(method_payload, exchange, method)
            moment = routing.moment_of(exchange)
            target = yield from self._search(method_payload, method, exchange, visits_max)
            if moment == routing.moment_of(exchange):
                break
        return target

    def _search(
        self,
        method_payload: bytes,
        method: BasicPublish,
        exchange: Exchange,
        visits_max: int | None,
    ) -> Steps[PublishTarget]:
        """Return the steps of one search; `find_in_steps` repeats it if bindings change."""
        routing = self._virtual_host.routing
        forgotten_count = routing.forgotten_count
        key_at = _EXCHANGE_AT + 1 + method_payload[_EXCHANGE_AT]
        name = method_payload[_EXCHANGE_AT:key_at]
        heads = self._heads[method_payload[-1] & _HEAD_FLAGS]
        head = heads.get(name)
        if head is None or head.routes_version != head.exchange.routes_version:
            version = exchange.routes_version
            singly = yield from routing.singly_in_steps(exchange)
            head = _Head(exchange, version, mandatory=method.mandatory, routes_singly=singly)
            if routing.forgotten_count == forgotten_count:
                heads.put(name, head)
        if head.single is not None:
            return head.single
        envelope = Envelope((method.routing_key,), None, visits_max)
        route = yield from routing.route_of(exchange, envelope)
        is_known = (
            routing.known_route_of(exchange, method.routing_key) is route
            and head.routes_version == exchange.routes_version
        )
        target = self._target_of(head, route) if is_known else head.target_of(route)
        if routing.forgotten_count == forgotten_count:
            self._remember(method_payload, target)
        return target

    def _remember(self, method_payload: bytes, target: PublishTarget) -> None:
        """Remember the target of a frame that came before."""
        value = hash(method_payload)
        if self._seen[value & _SEEN_MASK] == value:
            self._frames.put(method_payload, target)
        else:
            self._seen[value & _SEEN_MASK] = value

    def _checked(self, method_payload: bytes) -> tuple[BasicPublish, Exchange]:
        """Return what a frame says and its exchange; raises what `check` does."""
        method = decode_method(method_payload)
        assert isinstance(method, BasicPublish), "a run must carry basic.publish"
        if method.immediate:
            raise NotImplementedAmqp("immediate=true", *BasicPublish.ids)
        vhost = self._virtual_host
        exchange = vhost.exchanges.get(method.exchange)
        if exchange is None:
            raise NotFound(
                f"no exchange '{method.exchange}' in vhost '{vhost.name}'", *BasicPublish.ids
            )
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'",
                *BasicPublish.ids,
            )
        return method, exchange

    def _resolve_default(
        self, method_payload: bytes, exchange: Exchange, method: BasicPublish
    ) -> PublishTarget:
        """Return the target of a frame to the default exchange, whose routes are queue names."""
        key = method.routing_key
        queues = self._virtual_host.routing.route(exchange, Envelope((key,)))
        replies = reply_keys_of(exchange, (key,))
        target = PublishTarget(
            exchange,
            method.mandatory,
            routes_singly=False,
            queues=queues,
            reply_keys=replies,
            is_plain=not replies and (bool(queues) or not method.mandatory),
            routes_version=exchange.routes_version,
        )
        # Do not cache the route to a missing queue: a later declare of the queue would not end it.
        if key in self._virtual_host.queues or replies:
            self._frames.put(method_payload, target)
        return target
