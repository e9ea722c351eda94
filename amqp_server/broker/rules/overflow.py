"""Refuses publishes to a full queue whose `x-overflow` is `reject-publish`(`-dlx`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.queue_settings import Overflow
from amqp_server.broker.transfers.deaths import MAXLEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.queue import Queue


def refuse(queue: Queue, message: bytes, flags: int) -> bool:
    """Return whether a full queue refuses a message; with `-dlx` it also dead-letters it.

    Source: RabbitMQ 3.10, `rabbit_amqqueue_process:maybe_deliver_or_enqueue`.
    """
    if has_room_for(queue, [message]):
        return False
    if queue.settings.overflow is Overflow.REJECT_PUBLISH_DLX and queue.forwarder is not None:
        # The dead letter passes through the log, so that it is as safe as any other.
        start = queue.store.end_offset
        end = queue.publish([message], flags)
        for taken in queue.ready.take_range(start, end):
            queue.drop(taken.start, taken.end, MAXLEN)
    return True


def has_room_for(queue: Queue, messages: Sequence[bytes]) -> bool:
    """Return whether a queue that `refuses_when_full` has room for all these messages now."""
    rules = queue.rules
    if rules is None or rules.has_room_for(messages):
        return True
    # A publish cannot wait, but it needs no more room than its messages take.
    while not queue.bring_up_to_date() and not queue.is_at_work:
        if rules.has_room_for(messages):
            return True
    return rules.has_room_for(messages)
