"""Arguments of consumers: which there are, for which kind of queue, and what they may be.

What is not in the table is the client's own note, without effect.

Source: RabbitMQ `rabbit_amqqueue:consume_args` and the `consumer_arguments` that each kind of
queue says it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.handlers.argument_values import (
    any_value,
    duration_if_integer,
    integer,
    truth,
)
from amqp_server.broker.handlers.group_arguments import group_name_fault, reset_fault
from amqp_server.broker.handlers.queue_arguments import TYPE_MODULES
from amqp_server.broker.handlers.stream_consumers import stream_filter, stream_offset
from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.subscriptions.browsing import BROWSE, browses
from amqp_server.broker.subscriptions.joining import GROUP, RESET
from amqp_server.broker.subscriptions.start_position import OFFSET
from amqp_server.broker.subscriptions.stream_filter import FILTER, MATCH_UNFILTERED
from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.broker.handlers.argument_values import ValueCheck
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.field_values import FieldValue
    from amqp_server.protocol.methods import BasicConsume
    from amqp_server.protocol.tables import Table

PRIORITY = "x-priority"
"""Consumers with a higher one are served first."""

TIMEOUT = "x-consumer-timeout"
"""Milliseconds that a consumer may take to answer a delivery; 0 = for ever."""

_STREAM = frozenset((QueueType.STREAM,))


def _browse_fault(value: FieldValue, arguments: Table) -> str | None:
    """Return what is wrong with who wants to browse: what means nothing then is not taken."""
    fault = truth(value, arguments)
    if fault is None and browses(arguments):
        for name in (PRIORITY, FILTER, GROUP):
            if name in arguments:
                return f"a consumer that browses has no {name}"
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
"""By name, in RabbitMQ's order of checks."""


def check_consumer_arguments(queue: Queue, arguments: Table) -> None:
    """Check the arguments of a new consumer of a queue.

    Raises:
        PreconditionFailed: One has a value that it cannot have, or is for another kind of queue.
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
    """Tell whether an argument is for this consumer, though not for this kind of queue."""
    # The members of a group are like consumers of a queue; other consumers of a stream are served
    # each for itself.
    return (name == OFFSET and browses(arguments)) or (name == PRIORITY and GROUP in arguments)


def check_browser(queue: Queue, method: BasicConsume) -> None:
    """Check that a consumer that only looks does not want to be the only one.

    Raises:
        PreconditionFailed: It does.
    """
    if method.exclusive:
        raise PreconditionFailed(
            f"invalid arg '{BROWSE}' for queue '{queue.name}' in vhost "
            f"'{queue.virtual_host.name}': a consumer that browses cannot be exclusive"
        )


def consumer_priority(arguments: Table) -> int:
    """Return the priority that checked arguments ask for; 0 when they do not."""
    value = arguments.get(PRIORITY)
    return value.value if value is not None and isinstance(value.value, int) else 0


def consumer_timeout_ms(arguments: Table, queue: Queue, default_seconds: float) -> int:
    """Return how long a consumer may take: its own argument, its queue's, or the default."""
    value = arguments.get(TIMEOUT)
    if value is not None and isinstance(value.value, int):
        return value.value
    if browses(arguments):
        # It keeps nothing from anybody.
        return 0
    if queue.settings.consumer_timeout_ms is not None:
        return queue.settings.consumer_timeout_ms
    return int(default_seconds * 1000)
