"""Routing: from an exchange, over bindings and alternate exchanges, to queues.

Where the one key of a message alone decides, the broker finds its route once and remembers it until
an exchange on the way changes: a chain of thirty exchanges costs as much as one then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.exchange import Exchange
from amqp_server.broker.routing.recently_used import RecentlyUsed
from amqp_server.broker.transfers.delay import delay_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.broker.virtual_host import VirtualHost

ROUTES_MAX = 4096
"""Routes that a virtual host remembers for sure; twice as many at most."""
EXCHANGES_MAX = 4096
"""Exchanges of which it remembers whether they route singly; twice as many at most."""


class Routing:
    """Finds the queues that messages go to, in one virtual host.

    Args:
        virtual_host: Its exchanges and queues. The `routes_version` of an exchange says whether
            what is remembered of it is still right.
    """

    def __init__(self, virtual_host: VirtualHost) -> None:
        self._virtual_host = virtual_host
        self._routes: RecentlyUsed[tuple[Exchange, str], tuple[int, tuple[Queue, ...]]]
        self._routes = RecentlyUsed(ROUTES_MAX)
        self._singly = RecentlyUsed[Exchange, tuple[int, bool]](EXCHANGES_MAX)

    def route(self, exchange: Exchange, envelope: Envelope) -> Sequence[Queue]:
        """Return the queues that a message goes to, each once; not to be changed."""
        key, *copies = envelope.routing_keys
        # Lists of copies can be long, and are seldom the same.
        if exchange.name == "" or copies or self.routes_singly(exchange):
            return self._walk(exchange, envelope)
        found = self._routes.get((exchange, key))
        if found is None or found[0] != exchange.routes_version:
            found = exchange.routes_version, self._walk(exchange, envelope)
            self._routes.put((exchange, key), found)
        return found[1]

    def routes_singly(self, exchange: Exchange) -> bool:
        """Return whether two messages with the same keys may go different ways from here."""
        found = self._singly.get(exchange)
        if found is None or found[0] != exchange.routes_version:
            found = exchange.routes_version, self._reaches_one_that_routes_singly(exchange)
            self._singly.put(exchange, found)
        return found[1]

    def forget_all(self) -> None:
        """Forget all routes."""
        self._routes.clear()
        self._singly.clear()

    def _walk(self, exchange: Exchange, envelope: Envelope) -> tuple[Queue, ...]:
        """Follow exchange-to-exchange bindings with a visited set, so that cycles end."""
        queues: dict[Queue, None] = {}
        visited = {exchange}
        pending = [exchange]
        while pending:
            current = pending.pop()
            if current.name == "":
                vhost = self._virtual_host
                for key in envelope.routing_keys:
                    queue = vhost.queues.get(key) or vhost.damaged.refusing(key)
                    if queue is not None:
                        queues[queue] = None
                continue
            refusing = self._virtual_host.damaged.refusing_binding(current.name)
            if refusing is not None:
                queues[refusing] = None
            delay_queue = self._virtual_host.delay_queues.get(current)
            if delay_queue is not None and delay_ms(envelope.headers) > 0:
                queues[delay_queue] = None
                continue
            matched = current.matcher.match(envelope)
            alternate = self._alternate_of(current)
            if not matched and alternate is not None and alternate not in visited:
                # Each exchange by itself: what another one of the chain matched does not count.
                visited.add(alternate)
                pending.append(alternate)
            for destination in matched:
                if not isinstance(destination, Exchange):
                    queues[destination] = None
                elif destination not in visited:
                    visited.add(destination)
                    pending.append(destination)
        return tuple(queues)

    def _reaches_one_that_routes_singly(self, exchange: Exchange) -> bool:
        visited = {exchange}
        pending = [exchange]
        while pending:
            current = pending.pop()
            if current.matcher.routes_singly:
                return True
            for reached in (
                *self._virtual_host.graph.bound_to(current),
                self._alternate_of(current),
            ):
                if reached is not None and reached not in visited:
                    visited.add(reached)
                    pending.append(reached)
        return False

    def _alternate_of(self, exchange: Exchange) -> Exchange | None:
        """Return the exchange that takes what `exchange` cannot route; one not there is none."""
        alternate = exchange.alternate
        if alternate is None:
            return None
        vhost = self._virtual_host
        return vhost.exchanges.get(alternate) or vhost.damaged.refusing_exchange(alternate)
