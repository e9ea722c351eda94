"""Finds the source of a new consumer: its queue, or a place in the log named by its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.subscriptions.browsing import browses
from amqp_server.broker.subscriptions.joining import group_name, join, placed_group
from amqp_server.broker.subscriptions.start_position import (
    OFFSET,
    START_FIRST,
    StartKind,
    StartPosition,
    parse_start,
    start_offset,
    start_offset_now,
)
from amqp_server.broker.subscriptions.stream_filter import parse_filter
from appendlog import LogFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.consuming.source import Source
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.joining import MakeDurable
    from amqp_server.protocol.tables import Table


def needs_search(queue: Queue, arguments: Table) -> bool:
    """Return whether a new consumer has to wait while its place is looked up in the log.

    Args:
        queue: Queue that `basic.consume` named.
        arguments: Checked arguments of the consumer.
    """
    if queue.groups is not None and group_name(arguments) is not None:
        return placed_group(queue.groups, arguments) is None
    has_place = queue.groups is not None or browses(arguments)
    return has_place and _start(queue, arguments).kind is StartKind.TIME


def find_source(queue: Queue, arguments: Table) -> Source:
    """Return the source of a new consumer whose place need not be looked up in the log.

    Args:
        queue: Queue that `basic.consume` named.
        arguments: Checked arguments of the consumer.
    """
    if browses(arguments):
        return queue.subscriptions.browse(queue, start_offset_now(queue, _start(queue, arguments)))
    if queue.groups is None:
        return queue
    group = placed_group(queue.groups, arguments)
    if group is not None:
        return group.subscription
    start = start_offset_now(queue, _start(queue, arguments))
    return queue.subscriptions.begin(queue, start, parse_filter(arguments))


async def search_source(
    queue: Queue, arguments: Table, make_durable: MakeDurable
) -> Callable[[], Source] | None:
    """Look up the source of a new consumer; the queue may be deleted during that time.

    Args:
        queue: Queue that `basic.consume` named.
        arguments: Checked arguments of the consumer.
        make_durable: Writes a checkpoint.

    Returns:
        Function that returns the source; the caller adds the consumer in the same turn. None if
        the queue was deleted.

    Raises:
        PreconditionFailed: The consumer cannot join the group that it names.
        LogFailedError: The log cannot be read.
    """
    try:
        if queue.groups is not None and group_name(arguments) is not None:
            group = await join(queue, queue.groups, arguments, make_durable)
            return None if queue.is_deleted else lambda: group.subscription
        start = await start_offset(queue, _start(queue, arguments))
    except LogFailedError:
        if queue.is_deleted:
            # The deletion removed the files during the read.
            return None
        raise
    if queue.is_deleted:
        return None
    if browses(arguments):
        return lambda: queue.subscriptions.browse(queue, start)
    return lambda: queue.subscriptions.begin(queue, start, parse_filter(arguments))


def _start(queue: Queue, arguments: Table) -> StartPosition:
    if browses(arguments) and OFFSET not in arguments:
        return START_FIRST
    asked = arguments.get(OFFSET)
    start = parse_start(asked, queue.store.log.time_ns())
    assert start is not None, "the arguments must be checked before"
    if asked is not None and asked.kind != b"S" and start.kind is StartKind.TAIL:
        # In RabbitMQ a consumer of a stream that asks for a negative offset begins with the first
        # message. Only consumers that browse, which RabbitMQ does not have, count from the end.
        return start if browses(arguments) else START_FIRST
    return start
