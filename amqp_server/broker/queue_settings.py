"""A queue's arguments as plain values: checked once, read everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import floor, isfinite
from typing import TYPE_CHECKING

from amqp_server.protocol.field_comparison import INTEGER_KINDS

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table

DELIVERY_LIMIT_DEFAULT = 20
"""Default delivery limit of a quorum queue, as in RabbitMQ since 4.0."""


_NUMBER_KINDS = INTEGER_KINDS | {b"f", b"d", b"T"}


class QueueType(StrEnum):
    """Types of queue; all have the same log below them."""

    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"


class Overflow(StrEnum):
    """Behaviour of a full queue when a client publishes."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"

    @property
    def refuses(self) -> bool:
        """Whether the publish is refused, instead of dropping the oldest message."""
        return self is not Overflow.DROP_HEAD


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The arguments of one queue. None means that the queue has no such rule.

    Attributes:
        type: Type of the queue.
        message_ttl_ms: Longest that a message may be ready, in milliseconds, >= 0.
        expires_ms: Time without use after which the queue is deleted, in milliseconds, >= 1.
        max_length: Most ready messages, >= 0.
        max_length_bytes: Most octets of their bodies, >= 0.
        overflow: What happens when a publish exceeds one of the two.
        dead_letter_exchange: Exchange that gets messages that are rejected, expired or dropped.
        dead_letter_routing_key: Routing key that replaces their own.
        awaits_dead_letter_rule: Whether messages that are rejected, expired or dropped wait,
            because it is not known whether a policy names a dead-letter exchange.
        dead_letters_at_least_once: Whether a dead letter that no queue takes is kept and retried.
        max_priority: Highest priority that the queue distinguishes, 1 to 255.
        single_active_consumer: Whether the queue serves one consumer at a time.
        delivery_limit: Most requeues of a message; one more drops it, >= 0.
        consumer_timeout_ms: Time to acknowledge a delivery, in milliseconds, >= 0; 0 = no limit.
    """

    type: QueueType = QueueType.CLASSIC
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letters_at_least_once: bool = False
    max_priority: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    awaits_dead_letter_rule: bool = False


_NO_RULES = QueueSettings()


def queue_settings(arguments: Table) -> QueueSettings:
    """Return the settings in checked arguments; unknown values set no rule."""
    if not arguments:
        return _NO_RULES
    asked = _text(arguments, "x-queue-type")
    kind = QueueType(asked) if asked in set(QueueType) else QueueType.CLASSIC
    if kind is QueueType.STREAM:
        # Only retention removes messages from a stream, and it belongs to the log.
        timeout_ms = _integer(arguments, "x-consumer-timeout")
        return QueueSettings(type=kind, consumer_timeout_ms=timeout_ms)
    overflow = _overflow(arguments, kind)
    dead_letter_exchange = _text(arguments, "x-dead-letter-exchange")
    return QueueSettings(
        type=kind,
        message_ttl_ms=_integer(arguments, "x-message-ttl"),
        expires_ms=_integer(arguments, "x-expires"),
        max_length=_integer(arguments, "x-max-length"),
        max_length_bytes=_integer(arguments, "x-max-length-bytes"),
        overflow=overflow,
        dead_letter_exchange=dead_letter_exchange,
        dead_letter_routing_key=_text(arguments, "x-dead-letter-routing-key"),
        # As in RabbitMQ: a queue that may drop its head cannot promise to keep dead letters.
        dead_letters_at_least_once=(
            _text(arguments, "x-dead-letter-strategy") == "at-least-once"
            and dead_letter_exchange is not None
            and overflow is Overflow.REJECT_PUBLISH
        ),
        max_priority=_integer(arguments, "x-max-priority") or None,
        single_active_consumer=_truth(arguments, "x-single-active-consumer"),
        delivery_limit=_delivery_limit(arguments, kind),
        consumer_timeout_ms=_integer(arguments, "x-consumer-timeout"),
    )


def dead_letter_exchange_of(arguments: Table) -> str | None:
    """Return the name of the dead-letter exchange in a queue's arguments, or None."""
    return _text(arguments, "x-dead-letter-exchange")


def _overflow(arguments: Table, kind: QueueType) -> Overflow:
    asked = _text(arguments, "x-overflow")
    overflow = Overflow(asked) if asked in set(Overflow) else Overflow.DROP_HEAD
    if kind is QueueType.QUORUM and overflow is Overflow.REJECT_PUBLISH_DLX:
        # As in RabbitMQ, which accepts the argument and ignores it.
        return Overflow.DROP_HEAD
    return overflow


def _delivery_limit(arguments: Table, kind: QueueType) -> int | None:
    if kind is not QueueType.QUORUM:
        return None
    value = arguments.get("x-delivery-limit")
    if value is None:
        return DELIVERY_LIMIT_DEFAULT
    if value.kind not in _NUMBER_KINDS or not isinstance(value.value, int | float):
        # As in RabbitMQ, where every number is less than a value of another type.
        return None
    return floor(value.value) if value.value >= 0 and isfinite(value.value) else None


def _integer(arguments: Table, name: str) -> int | None:
    value = arguments.get(name)
    if value is None or value.kind not in INTEGER_KINDS or not isinstance(value.value, int):
        return None
    return value.value


def _text(arguments: Table, name: str) -> str | None:
    value = arguments.get(name)
    if value is None or not isinstance(value.value, bytes):
        return None
    return value.value.decode("utf-8", "surrogateescape")


def _truth(arguments: Table, name: str) -> bool:
    value = arguments.get(name)
    return value is not None and value.value is True
