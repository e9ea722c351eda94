"""Matchers: which bindings of an exchange a message fits, one file for each exchange type.

A matcher only maps a routing key (and headers) to destinations; what a destination is does
not concern it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.matchers.consistent_hash import ConsistentHashMatcher
from amqp_server.broker.matchers.direct import DirectMatcher
from amqp_server.broker.matchers.fanout import FanoutMatcher
from amqp_server.broker.matchers.headers import HeadersMatcher
from amqp_server.broker.matchers.random import RandomMatcher
from amqp_server.broker.matchers.topic import TopicMatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.matchers.matcher import Matcher
    from amqp_server.protocol.tables import Table

MATCHERS: dict[str, Callable[[Table], Matcher]] = {
    "direct": lambda _: DirectMatcher(),
    "fanout": lambda _: FanoutMatcher(),
    "topic": lambda _: TopicMatcher(),
    "headers": lambda _: HeadersMatcher(),
    "x-consistent-hash": ConsistentHashMatcher,
    "x-random": lambda _: RandomMatcher(),
}
"""What makes the matcher of an exchange type from the exchange's arguments."""

__all__ = [
    "MATCHERS",
    "ConsistentHashMatcher",
    "DirectMatcher",
    "FanoutMatcher",
    "HeadersMatcher",
    "RandomMatcher",
    "TopicMatcher",
]
