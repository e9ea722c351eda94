"""Random exchange: each message to one destination, any of them, whatever the keys.

Source: RabbitMQ, plugin rabbitmq_random_exchange.
"""

from __future__ import annotations

from random import choice
from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.fanout import FanoutMatcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.broker.routing.matchers.matcher import Destination


class RandomMatcher(FanoutMatcher):
    """All destinations; one is drawn for each message, whoever has more bindings."""

    routes_singly = True

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return one destination; none if there are no bindings."""
        destinations = [each for each in super().match(envelope) if not each.is_gone]
        return (choice(destinations),) if destinations else ()  # noqa: S311 - nothing secret
