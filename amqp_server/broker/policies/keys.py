"""The keys of policies: their values, who has them, and which of several values counts.

One table decides what a policy may hold, to which types of queue a policy with such a key applies,
how a user's policy and an operator's are merged, and whether a policy or an argument of the queue
counts.

Source: RabbitMQ `rabbit_policies` (checks and texts), `rabbit_policy:merge_policies`,
`unsupported_policies` of each queue type. The keys behind `durability` are our own; they are our
arguments of queues without `x-`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from amqp_server.base.config import Durability
from amqp_server.broker.age_text import age_ns
from amqp_server.broker.queue_settings import Overflow, QueueType
from amqp_server.broker.storing.storage_settings import SEGMENT_BYTES_MIN
from appendlog import SEGMENT_BYTES_MAX, Compression

INTEGER_MAX: Final = (1 << 63) - 1
"""Highest number in a policy."""
TIMER_MS_MAX: Final = 315_360_000_000
"""Longest time that a timer may run: ten years, the bound of these arguments too."""
_FILTER_BYTES: Final = range(16, 256)
_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")

_CLASSIC: Final = frozenset((QueueType.CLASSIC,))
_QUORUM: Final = frozenset((QueueType.QUORUM,))
_STREAM: Final = frozenset((QueueType.STREAM,))
_NO_STREAM: Final = _CLASSIC | _QUORUM
_EVERY: Final = frozenset(QueueType)
_NONE: Final = frozenset[QueueType]()


class Counts(Enum):
    """Rule that says which of two values counts."""

    LOWER = auto()
    """The lower one."""
    LIMIT = auto()
    """The lower one; but a negative one means no limit, and then the higher one counts."""
    FIRST = auto()
    """The operator's before the user's; the argument before the policy."""


Check = Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """One key of policies.

    Attributes:
        is_valid: Whether a JSON value may stand there.
        noun: What it is, in RabbitMQ's text about a wrong value: `-1 is not a valid NOUN`.
        counts: Which value counts, of operator and user, and of argument and policy.
        types: Types of queue that can have it. A policy applies to no queue of another type.
        policy_wins: Types of queue where the policy counts before the argument, whatever `counts`
            says.
        is_operators: Whether an operator policy may hold it.
        has_effect: Whether it does what the argument of its name does; others are kept only.
    """

    is_valid: Check
    noun: str
    counts: Counts = Counts.FIRST
    types: frozenset[QueueType] = _EVERY
    policy_wins: frozenset[QueueType] = _NONE
    is_operators: bool = False
    has_effect: bool = True


def _integer_from(lowest: int, highest: int = INTEGER_MAX) -> Check:
    return lambda value: type(value) is int and lowest <= value <= highest


def _one_of(*choices: str) -> Check:
    return lambda value: isinstance(value, str) and value in choices


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_age(value: object) -> bool:
    return isinstance(value, str) and age_ns(value.encode("utf-8", "replace")) is not None


def _is_anything(_value: object) -> bool:
    return True


def _bound(noun: str, lowest: int = 0, types: frozenset[QueueType] = _NO_STREAM) -> PolicyKey:
    """Return a key of which always the lower value counts."""
    return PolicyKey(_integer_from(lowest), noun, Counts.LOWER, types, is_operators=True)


def _kept(noun: str, is_valid: Check = _is_anything) -> PolicyKey:
    """Return a key that has no effect here, and never keeps a policy from a queue."""
    return PolicyKey(is_valid, noun, has_effect=False)


def _own(noun: str, is_valid: Check, types: frozenset[QueueType] = _EVERY) -> PolicyKey:
    return PolicyKey(is_valid, noun, types=types, is_operators=True)


KEYS: Final = {
    "alternate-exchange": PolicyKey(_is_text, "alternate exchange name", has_effect=False),
    "dead-letter-exchange": PolicyKey(_is_text, "dead letter exchange name", types=_NO_STREAM),
    "dead-letter-routing-key": PolicyKey(_is_text, "dead letter routing key", types=_NO_STREAM),
    "dead-letter-strategy": PolicyKey(
        _one_of("at-most-once", "at-least-once"), "dead letter strategy", types=_QUORUM
    ),
    "message-ttl": _bound("message TTL"),
    "expires": PolicyKey(
        _integer_from(1, TIMER_MS_MAX),
        "queue expiry",
        Counts.LOWER,
        _NO_STREAM,
        is_operators=True,
    ),
    "max-length": _bound("maximum length"),
    "max-length-bytes": PolicyKey(
        _integer_from(0),
        "maximum length in bytes",
        Counts.LOWER,
        policy_wins=_STREAM,
        is_operators=True,
    ),
    "max-in-memory-length": _bound("maximum memory in bytes", types=_QUORUM),
    "max-in-memory-bytes": _bound("maximum memory in bytes", types=_QUORUM),
    "overflow": PolicyKey(
        _one_of(*Overflow),
        "overflow value",
        types=_NO_STREAM,
        policy_wins=_QUORUM,
        is_operators=True,
    ),
    "delivery-limit": PolicyKey(
        _integer_from(-INTEGER_MAX), "delivery limit", Counts.LIMIT, _QUORUM, is_operators=True
    ),
    "consumer-timeout": PolicyKey(_integer_from(0, TIMER_MS_MAX), "consumer timeout", Counts.LOWER),
    "max-age": PolicyKey(_is_age, "max age", types=_STREAM, policy_wins=_STREAM),
    "stream-max-segment-size-bytes": PolicyKey(
        _integer_from(0), "segment size", types=_STREAM, policy_wins=_STREAM
    ),
    "stream-filter-size-bytes": PolicyKey(
        lambda value: type(value) is int and value in _FILTER_BYTES,
        "filter size. Valid range is 16-255",
        types=_STREAM,
        has_effect=False,
    ),
    "queue-mode": _kept("queue-mode value", _one_of("default", "lazy")),
    "queue-version": PolicyKey(
        _integer_from(1, 2), "queue-version value", is_operators=True, has_effect=False
    ),
    "queue-leader-locator": _kept("queue leader locator value", _one_of(*_LOCATORS)),
    "queue-master-locator": _kept("queue master locator value"),
    "initial-cluster-size": _kept("cluster size", _integer_from(0)),
    "target-group-size": _kept("target group size", _integer_from(0)),
    "ha-mode": _kept("ha-mode value", _one_of("all", "exactly", "nodes")),
    "ha-params": _kept("ha-params value"),
    "ha-sync-mode": _kept("ha-sync-mode value"),
    "ha-sync-batch-size": _kept("ha-sync-batch-size value"),
    "ha-promote-on-shutdown": _kept("ha-promote-on-shutdown value"),
    "ha-promote-on-failure": _kept("ha-promote-on-failure value"),
    "federation-upstream": _kept("federation-upstream value"),
    "federation-upstream-set": _kept("federation-upstream-set value"),
    "federation-upstream-pattern": _kept("federation-upstream-pattern value"),
    "durability": _own("durability", _one_of(*Durability)),
    "compression": _own("compression", _one_of(*Compression)),
    "retain-for": _own("retention time", _integer_from(0), _NO_STREAM),
    "retain-bytes": _own("retention size", _integer_from(0), _NO_STREAM),
    "retain-segments-min": _own("number of segments", _integer_from(1), _NO_STREAM),
    "protect-unconsumed": _own("protect-unconsumed value", _is_truth, _NO_STREAM),
    "force-remove-after": _own("age of forced removal", _integer_from(0), _NO_STREAM),
    "segment-max-bytes": _own("segment size", _integer_from(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)),
    "segment-max-age": _own("segment age", _integer_from(0, TIMER_MS_MAX)),
}
"""Keys by name."""
