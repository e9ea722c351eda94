"""Matchers: which bindings of an exchange a message fits, one file for each exchange type.

A matcher only maps a routing key (and headers) to destinations; what a destination is does
not concern it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.matchers.direct import DirectMatcher
from amqp_server.broker.matchers.fanout import FanoutMatcher
from amqp_server.broker.matchers.headers import HeadersMatcher
from amqp_server.broker.matchers.topic import TopicMatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.matchers.matcher import Matcher

MATCHERS: dict[str, Callable[[], Matcher]] = {
    "direct": DirectMatcher,
    "fanout": FanoutMatcher,
    "topic": TopicMatcher,
    "headers": HeadersMatcher,
}
"""Matcher by exchange type."""

__all__ = ["MATCHERS", "DirectMatcher", "FanoutMatcher", "HeadersMatcher", "TopicMatcher"]
