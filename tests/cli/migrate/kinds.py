"""Kinds of queues that a RabbitMQ has."""

from __future__ import annotations

from enum import Enum
from typing import Any


class Kind(Enum):
    """A kind of queue, with its arguments."""

    CLASSIC = "classic"
    LAZY = "lazy"
    QUORUM = "quorum"
    STREAM = "stream"
    PRIORITY = "priority"
    LIFETIME = "lifetime"
    DEAD_LETTERS = "dead letters"
    LENGTH = "length"

    def arguments(self, count: int) -> dict[str, Any]:
        """Return the arguments of a queue that gets `count` messages."""
        match self:
            case Kind.CLASSIC:
                return {}
            case Kind.LAZY:
                return {"x-queue-mode": "lazy"}
            case Kind.QUORUM:
                return {"x-queue-type": "quorum"}
            case Kind.STREAM:
                return {"x-queue-type": "stream"}
            case Kind.PRIORITY:
                return {"x-max-priority": 10}
            case Kind.LIFETIME:
                return {"x-message-ttl": 86_400_000}
            case Kind.DEAD_LETTERS:
                return {"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": "dead"}
            case Kind.LENGTH:
                return {"x-max-length": count}
