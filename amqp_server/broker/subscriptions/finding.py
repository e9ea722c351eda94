"""What a new consumer takes from: its queue, or a place in its log that its arguments name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.consuming.source import Source
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.tables import Table

OFFSET = "x-stream-offset"
"""Where a consumer of a stream begins."""


def find_source(queue: Queue, arguments: Table) -> Source:
    """Return where a new consumer is to be served.

    Args:
        queue: What it named.
        arguments: Of the consumer, checked.
    """
    if not queue.is_stream:
        return queue
    return queue.subscriptions.begin(_start(queue, arguments))


def _start(queue: Queue, arguments: Table) -> int:
    value = arguments.get(OFFSET)
    if value is not None and isinstance(value.value, int):
        return value.value
    if value is not None and value.value == b"first":
        return queue.store.log.log_start_offset
    return queue.visible_end
