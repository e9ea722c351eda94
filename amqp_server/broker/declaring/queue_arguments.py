"""Arguments of queues: their names, the queue types that have them, and their checks.

One table decides three things when a queue is declared: which values an argument may have, which
queue types have it, and whether it is compared with that of an existing queue. An argument that is
not in the table is stored and has no effect.

Source: RabbitMQ `rabbit_amqqueue:declare_args` (checks, texts and their order) and the
`queue_arguments` of each queue type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_server.base.config import Durability
from amqp_server.broker.declaring.argument_values import (
    age,
    any_value,
    duration,
    duration_if_integer,
    not_negative,
    number,
    one_of,
    positive,
    positive_duration,
    text,
    truth,
)
from amqp_server.broker.queue_settings import Overflow, QueueType
from amqp_server.broker.storing.storage_settings import (
    COMPRESSION,
    DURABILITY,
    FORCE_REMOVE_AFTER,
    PROTECT_UNCONSUMED,
    RETAIN_BYTES,
    RETAIN_FOR,
    RETAIN_SEGMENTS_MIN,
    SEGMENT_BYTES_MIN,
    SEGMENT_MAX_AGE,
    SEGMENT_MAX_BYTES,
    STREAM_MAX_AGE,
    STREAM_MAX_BYTES,
    STREAM_SEGMENT_BYTES,
)
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import type_name
from appendlog import SEGMENT_BYTES_MAX, Compression

if TYPE_CHECKING:
    from amqp_server.broker.declaring.argument_values import ValueCheck
    from amqp_server.protocol.field_values import FieldValue
    from amqp_server.protocol.methods import QueueDeclare
    from amqp_server.protocol.tables import Table

PRIORITY_MAX = 255
QUEUE_VERSIONS = (1, 2)
"""Versions of RabbitMQ's storage of classic queues; they have no effect here."""
STREAM_SEGMENT_BYTES_MAX = 3_000_000_000
"""Largest segment size of a stream that a client may ask for; RabbitMQ's limit."""
FILTER_BYTES = range(16, 256)
"""Sizes of RabbitMQ's Bloom filters in streams; they have no effect here."""

TYPE_MODULES = {
    QueueType.CLASSIC: "rabbit_classic_queue",
    QueueType.QUORUM: "rabbit_quorum_queue",
    QueueType.STREAM: "rabbit_stream_queue",
}
"""Names of the queue types in RabbitMQ's texts."""
_CLASSIC = frozenset((QueueType.CLASSIC,))
_QUORUM = frozenset((QueueType.QUORUM,))
_STREAM = frozenset((QueueType.STREAM,))
_CLASSIC_OR_QUORUM = _CLASSIC | _QUORUM
_EVERY = frozenset(QueueType)


def check_queue_arguments(queue: str, vhost: str, method: QueueDeclare) -> None:
    """Check the arguments of a new queue, and the properties that its type allows.

    Raises:
        PreconditionFailed: An argument has an invalid value, or the queue's type does not have
            it, or cannot be exclusive, transient or auto-delete.
    """
    arguments = method.arguments
    if not arguments:
        return
    where = f"queue '{queue}' in vhost '{vhost}'"
    _check_dead_letter_exchange(where, arguments)
    _check_value("x-queue-type", where, arguments)
    kind = queue_type(arguments)
    for name, argument in QUEUE_ARGUMENTS.items():
        if name in arguments and kind in argument.types:
            _check_value(name, where, arguments)
    for name, argument in QUEUE_ARGUMENTS.items():
        if name in arguments and kind not in argument.types:
            raise PreconditionFailed(
                f"invalid arg '{name}' for {where} of queue type {TYPE_MODULES[kind]}"
            )
    if kind is not QueueType.CLASSIC:
        _check_replicable(where, method)
    if kind is QueueType.STREAM:
        _check_stream_sizes(arguments)


def compared_arguments(kind: QueueType) -> list[str]:
    """Return the arguments that a repeated declare must repeat, in the order of the checks."""
    return [
        name
        for name, argument in QUEUE_ARGUMENTS.items()
        if argument.is_compared and kind in argument.types
    ]


def queue_type(arguments: Table) -> QueueType:
    """Return the queue type in checked arguments."""
    value = arguments.get("x-queue-type")
    if value is None:
        return QueueType.CLASSIC
    return next(kind for kind in QueueType if value.value == kind.encode())


def _check_value(name: str, where: str, arguments: Table) -> None:
    value = arguments.get(name)
    fault = QUEUE_ARGUMENTS[name].fault(value, arguments) if value is not None else None
    if fault is not None:
        raise PreconditionFailed(f"invalid arg '{name}' for {where}: {fault}")


def _check_dead_letter_exchange(where: str, arguments: Table) -> None:
    # RabbitMQ checks it first, for the user's permissions, and with another text.
    value = arguments.get("x-dead-letter-exchange")
    if value is not None and value.kind != b"S":
        raise PreconditionFailed(
            f"invalid type '{type_name(value)}' for arg 'x-dead-letter-exchange' in {where}"
        )


def _check_replicable(where: str, method: QueueDeclare) -> None:
    """Refuse properties that quorum queues and streams cannot have, in RabbitMQ's order."""
    for is_asked, name in (
        (method.auto_delete, "auto-delete"),
        (method.exclusive, "exclusive-owner"),
        (not method.durable, "non-durable"),
    ):
        if is_asked:
            raise PreconditionFailed(f"invalid property '{name}' for {where}")


def _check_stream_sizes(arguments: Table) -> None:
    """Check what RabbitMQ checks last; its texts include two blanks."""
    segment = arguments.get(STREAM_SEGMENT_BYTES)
    if segment is not None and number(segment) > STREAM_SEGMENT_BYTES_MAX:
        raise PreconditionFailed(f"Exceeded max value for {STREAM_SEGMENT_BYTES}")
    filters = arguments.get("x-stream-filter-size-bytes")
    if filters is not None and filters.value not in FILTER_BYTES:
        raise PreconditionFailed("Invalid value for  x-stream-filter-size-bytes")


def _priority(value: FieldValue, arguments: Table) -> str | None:
    fault = not_negative(value, arguments)
    if fault is None and number(value) > PRIORITY_MAX:
        return f"{{max_value_exceeded,{number(value)}}}"
    return fault


def _dead_letter_key(value: FieldValue, arguments: Table) -> str | None:
    fault = text(value, arguments)
    if fault is None and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    return fault


def _version(value: FieldValue, arguments: Table) -> str | None:
    fault = not_negative(value, arguments)
    if fault is None and number(value) not in QUEUE_VERSIONS:
        return f"\"unsupported queue version '{number(value)}'\""
    return fault


def _segment_bytes(value: FieldValue, arguments: Table) -> str | None:
    fault = not_negative(value, arguments)
    if fault is None and number(value) < SEGMENT_BYTES_MIN:
        return f"{{value_too_small,{number(value)}}}"
    if fault is None and number(value) > SEGMENT_BYTES_MAX:
        return f"{{value_too_large,{number(value)}}}"
    return fault


@dataclass(frozen=True, slots=True)
class QueueArgument:
    """The check of one argument, the queue types that have it, and whether redeclares compare it.

    `fault` returns what is wrong with a value, in RabbitMQ's words, or None.
    """

    fault: ValueCheck
    types: frozenset[QueueType] = _CLASSIC_OR_QUORUM
    is_compared: bool = True


QUEUE_ARGUMENTS = {
    "x-expires": QueueArgument(positive_duration),
    "x-message-ttl": QueueArgument(duration),
    "x-dead-letter-exchange": QueueArgument(any_value),
    "x-dead-letter-routing-key": QueueArgument(_dead_letter_key),
    "x-dead-letter-strategy": QueueArgument(
        one_of(("at-most-once", "at-least-once"), otherwise="invalid_dlx_strategy"), _QUORUM
    ),
    "x-max-length": QueueArgument(not_negative),
    STREAM_MAX_BYTES: QueueArgument(not_negative, _EVERY),
    "x-max-in-memory-length": QueueArgument(not_negative, _QUORUM),
    "x-max-in-memory-bytes": QueueArgument(not_negative, _QUORUM),
    "x-max-priority": QueueArgument(_priority, _CLASSIC),
    "x-overflow": QueueArgument(one_of((*Overflow,), otherwise="invalid_overflow")),
    "x-queue-mode": QueueArgument(
        one_of(("default", "lazy"), otherwise="\"unsupported queue mode '{}'\""), _CLASSIC
    ),
    "x-queue-version": QueueArgument(_version, _CLASSIC),
    "x-single-active-consumer": QueueArgument(truth),
    "x-queue-type": QueueArgument(
        one_of((*QueueType,), otherwise="\"unsupported queue type '{}'\""), _EVERY
    ),
    "x-quorum-initial-group-size": QueueArgument(positive, _QUORUM),
    STREAM_MAX_AGE: QueueArgument(age, _STREAM),
    STREAM_SEGMENT_BYTES: QueueArgument(not_negative, _STREAM),
    "x-initial-cluster-size": QueueArgument(positive, _STREAM),
    "x-queue-leader-locator": QueueArgument(
        one_of(
            ("client-local", "balanced", "random", "least-leaders"),
            otherwise="invalid_queue_locator_arg",
        ),
        _EVERY,
    ),
    "x-queue-master-locator": QueueArgument(any_value, _CLASSIC),
    "x-delivery-limit": QueueArgument(any_value, _QUORUM),
    "x-consumer-timeout": QueueArgument(duration_if_integer, _EVERY, is_compared=False),
    DURABILITY: QueueArgument(
        one_of((*Durability,), otherwise="\"unsupported durability '{}'\""), _EVERY
    ),
    COMPRESSION: QueueArgument(
        one_of((*Compression,), otherwise="\"unsupported compression '{}'\""),
        _EVERY,
        is_compared=False,
    ),
    RETAIN_FOR: QueueArgument(not_negative, is_compared=False),
    RETAIN_BYTES: QueueArgument(not_negative, is_compared=False),
    RETAIN_SEGMENTS_MIN: QueueArgument(positive, is_compared=False),
    PROTECT_UNCONSUMED: QueueArgument(truth, is_compared=False),
    FORCE_REMOVE_AFTER: QueueArgument(not_negative, is_compared=False),
    SEGMENT_MAX_BYTES: QueueArgument(_segment_bytes, _EVERY, is_compared=False),
    SEGMENT_MAX_AGE: QueueArgument(duration, _EVERY, is_compared=False),
}
"""Arguments by name, in RabbitMQ's order of checks; the first fault is reported."""
