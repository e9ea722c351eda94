"""Arguments of consumers: their names, the queue types that have them, and their checks.

An argument that is not in the table has no effect.

Source: RabbitMQ `rabbit_amqqueue:consume_args` and the `consumer_arguments` of each queue type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.declaring.argument_values import (
    any_value,
    duration_if_integer,
    integer,
    truth,
)
from amqp_server.broker.declaring.queue_arguments import TYPE_MODULES
from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.subscriptions.browsing import BROWSE, browses
from amqp_server.broker.subscriptions.joining import GROUP, RESET
from amqp_server.broker.subscriptions.start_position import OFFSET
from amqp_server.broker.subscriptions.stream_filter import FILTER, MATCH_UNFILTERED
from amqp_server.connections.handlers.group_arguments import group_name_fault, reset_fault
from amqp_server.connections.handlers.stream_consumers import stream_filter, stream_offset
from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.broker.declaring.argument_values import ValueCheck
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.field_values import FieldValue
    from amqp_server.protocol.methods import BasicConsume
    from amqp_server.protocol.tables import Table

PRIORITY = "x-priority"
"""Consumers with a higher priority are served first."""

TIMEOUT = "x-consumer-timeout"
"""Milliseconds that a consumer has to acknowledge a delivery; 0 = no limit."""

_STREAM = frozenset((QueueType.STREAM,))


def _browse_fault(value: FieldValue, arguments: Table) -> str | None:
    """Return the fault of `x-browse`; arguments without effect for browsing are refused."""
    fault = truth(value, arguments)
    if fault is None and browses(arguments):
        for name in (PRIORITY, FILTER, GROUP):
            if name in arguments:
                return f"a consumer that browses cannot have {name}"
    return fault


_CONSUMER_ARGUMENTS: dict[str, tuple[ValueCheck, frozenset[QueueType]]] = {
    BROWSE: (_browse_fault, frozenset(QueueType)),
    PRIORITY: (integer, frozenset((QueueType.CLASSIC, QueueType.QUORUM))),
    TIMEOUT: (duration_if_integer, frozenset(QueueType)),
    OFFSET: (stream_offset, _STREAM),
    FILTER: (stream_filter, _STREAM),
    MATCH_UNFILTERED: (any_value, _STREAM),
    GROUP: (group_name_fault, _STREAM),
    RESET: (reset_fault, _STREAM),
}
"""Arguments by name, in RabbitMQ's order of checks."""


def check_consumer_arguments(queue: Queue, arguments: Table) -> None:
    """Check the arguments of a new consumer of a queue.

    Raises:
        PreconditionFailed: An argument has an invalid value, or the queue's type does not have
            it.
    """
    if not arguments:
        return
    kind = queue.settings.type
    where = f"queue '{queue.name}' in vhost '{queue.virtual_host.name}'"
    for name, (check, kinds) in _CONSUMER_ARGUMENTS.items():
        value = arguments.get(name)
        if value is None:
            continue
        if kind not in kinds and not _is_taken(name, arguments):
            raise PreconditionFailed(
                f"invalid arg '{name}' for {where} of queue type {TYPE_MODULES[kind]}"
            )
        fault = check(value, arguments)
        if fault is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {where}: {fault}")


def _is_taken(name: str, arguments: Table) -> bool:
    """Return whether this consumer may have an argument that its queue's type does not."""
    # Members of a group share messages like consumers of a queue; other consumers of a stream
    # are independent.
    return (name == OFFSET and browses(arguments)) or (name == PRIORITY and GROUP in arguments)


def check_browser(queue: Queue, method: BasicConsume) -> None:
    """Check that a consumer that browses is not exclusive.

    Raises:
        PreconditionFailed: The consumer is exclusive.
    """
    if method.exclusive:
        raise PreconditionFailed(
            f"invalid arg '{BROWSE}' for queue '{queue.name}' in vhost "
            f"'{queue.virtual_host.name}': a consumer that browses cannot be exclusive"
        )


def consumer_priority(arguments: Table) -> int:
    """Return the priority in checked arguments; 0 if there is none."""
    value = arguments.get(PRIORITY)
    return value.value if value is not None and isinstance(value.value, int) else 0


def consumer_timeout_ms(arguments: Table, queue: Queue, default_seconds: float) -> int:
    """Return the delivery timeout: the consumer's own, its queue's, or the default."""
    value = arguments.get(TIMEOUT)
    if value is not None and isinstance(value.value, int):
        return value.value
    if browses(arguments):
        # It keeps no message from other consumers.
        return 0
    if queue.settings.consumer_timeout_ms is not None:
        return queue.settings.consumer_timeout_ms
    return int(default_seconds * 1000)
