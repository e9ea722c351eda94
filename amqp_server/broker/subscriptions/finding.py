"""What a new consumer takes from: its queue, or a place in its log that its arguments name."""

from __future__ import annotations

import time
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


def is_searched_for(queue: Queue, arguments: Table) -> bool:
    """Return whether a new consumer has to wait until its place is found in the log.

    Args:
        queue: What it named.
        arguments: Of the consumer, checked.
    """
    if queue.groups is not None and group_name(arguments) is not None:
        return placed_group(queue.groups, arguments) is None
    has_place = queue.is_stream or browses(arguments)
    return has_place and _start(arguments).kind is StartKind.TIME


def find_source(queue: Queue, arguments: Table) -> Source:
    """Return where a new consumer is to be served, unless its place is searched for.

    Args:
        queue: What it named.
        arguments: Of the consumer, checked.
    """
    if browses(arguments):
        return queue.subscriptions.browse(start_offset_now(queue, _start(arguments)))
    if queue.groups is None:
        return queue
    group = placed_group(queue.groups, arguments)
    if group is not None:
        return group.subscription
    start = start_offset_now(queue, _start(arguments))
    return queue.subscriptions.begin(start, parse_filter(arguments))


async def search_source(
    queue: Queue, arguments: Table, make_durable: MakeDurable
) -> Callable[[], Source] | None:
    """Find where a new consumer is to be served, which may be gone by then.

    Args:
        queue: What it named.
        arguments: Of the consumer, checked.
        make_durable: Writes to the disk what checkpoints are to know.

    Returns:
        What begins to serve from there, for whoever adds the consumer at once; None if the queue
        was deleted meanwhile.

    Raises:
        PreconditionFailed: The consumer cannot join the group that it names.
        LogFailedError: The log cannot be read.
    """
    try:
        if queue.groups is not None and group_name(arguments) is not None:
            group = await join(queue.groups, arguments, make_durable)
            return None if queue.is_deleted else lambda: group.subscription
        start = await start_offset(queue, _start(arguments))
    except LogFailedError:
        if queue.is_deleted:
            # Its files went while they were looked at.
            return None
        raise
    if queue.is_deleted:
        return None
    if browses(arguments):
        return lambda: queue.subscriptions.browse(start)
    return lambda: queue.subscriptions.begin(start, parse_filter(arguments))


def _start(arguments: Table) -> StartPosition:
    if browses(arguments) and OFFSET not in arguments:
        return START_FIRST
    asked = arguments.get(OFFSET)
    start = parse_start(asked, time.time_ns())
    assert start is not None, "not checked to be a place"
    if asked is not None and asked.kind != b"S" and start.kind is StartKind.TAIL:
        # RabbitMQ lets a consumer of a stream that asks for a negative offset begin with the first
        # message. Only consumers that browse, which RabbitMQ does not have, count from the end.
        return start if browses(arguments) else START_FIRST
    return start
