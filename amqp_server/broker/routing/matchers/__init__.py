"""Matchers: which bindings of an exchange a message fits, one file for each exchange type.

A matcher only maps a routing key (and headers) to destinations; what a destination is does
not concern it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.consistent_hash import ConsistentHashMatcher
from amqp_server.broker.routing.matchers.delayed import DelayedMatcher
from amqp_server.broker.routing.matchers.direct import DirectMatcher
from amqp_server.broker.routing.matchers.fanout import FanoutMatcher
from amqp_server.broker.routing.matchers.headers import HeadersMatcher
from amqp_server.broker.routing.matchers.random import RandomMatcher
from amqp_server.broker.routing.matchers.topic import TopicMatcher
from amqp_server.broker.transfers.delay import DELAYED_KIND, DELAYED_TYPE
from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.routing.matchers.matcher import Matcher
    from amqp_server.protocol.tables import Table


def _delayed(arguments: Table) -> Matcher:
    """Return the matcher of a delayed exchange.

    Raises:
        PreconditionFailed: The argument names no other type.
    """
    value = arguments.get(DELAYED_TYPE)
    octets = value.value if value is not None and isinstance(value.value, bytes) else b""
    kind = octets.decode("utf-8", "replace")
    if kind == DELAYED_KIND or kind not in MATCHERS:
        raise PreconditionFailed(
            f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type"
        )
    return DelayedMatcher(MATCHERS[kind](arguments))


MATCHERS: dict[str, Callable[[Table], Matcher]] = {
    "direct": lambda _: DirectMatcher(),
    "fanout": lambda _: FanoutMatcher(),
    "topic": lambda _: TopicMatcher(),
    "headers": lambda _: HeadersMatcher(),
    "x-consistent-hash": ConsistentHashMatcher,
    "x-random": lambda _: RandomMatcher(),
    DELAYED_KIND: _delayed,
}
"""Makes the matcher of an exchange type from the exchange's arguments."""

__all__ = [
    "MATCHERS",
    "ConsistentHashMatcher",
    "DelayedMatcher",
    "DirectMatcher",
    "FanoutMatcher",
    "HeadersMatcher",
    "RandomMatcher",
    "TopicMatcher",
]
