"""Dispatch: hand a source's ready messages to its consumers, in turn and by credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.storing.journal_requests import up_to

if TYPE_CHECKING:
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.source import Source

RUN_MESSAGES_MAX = 4096
"""Messages given to one consumer at a time."""
RUN_BYTES_MAX = 512 * 1024
"""Message bytes given to one consumer at a time; one larger message goes alone."""


def dispatch(source: Source) -> bool:
    """Give each able consumer of `source` one run.

    Those of a lower priority get something only when those of a higher one can take no more.

    Returns:
        Whether there is more to do in the next turn (messages and credit are left).
    """
    for line in source.consumers.lines:
        able = [consumer for consumer in line if consumer.credit]
        if not able:
            continue
        if not _share_out(source, able) or len(source.ready) == 0:
            return False
        if any(consumer.credit for consumer in able):
            return True
    return False


def _share_out(source: Source, able: list[Consumer]) -> bool:
    """Give each of some equal consumers one run.

    With few messages for many consumers everyone gets an equal share; a lone consumer gets
    all its credit allows, up to the run's bounds.

    Returns:
        False when messages are being read from the log; the source is marked when they are here.
    """
    favoured: list[Consumer] = []
    for served, consumer in enumerate(able):
        # Asked again: consumers of one channel may share its credit.
        credit = consumer.credit
        if credit == 0:
            continue
        share, rest = divmod(len(source.ready), len(able) - served)
        if rest:
            share += 1
            favoured.append(consumer)
        if share == 0:
            break
        if not _deliver_run(source, consumer, min(share, credit, RUN_MESSAGES_MAX)):
            return False
    for consumer in favoured:
        # Whoever got one message less comes first in the next turn, as if they had been
        # given out one by one.
        source.consumers.serve(consumer)
    return True


def _deliver_run(source: Source, consumer: Consumer, count: int) -> bool:
    while count > 0:
        ready = source.ready.peek()
        if ready is None:
            return True
        messages = source.read_run(ready.start, ready.start + min(count, len(ready)))
        if not messages:
            return False
        if isinstance(messages, list):
            messages = up_to(messages, RUN_BYTES_MAX)
        else:
            messages = messages.up_to(RUN_BYTES_MAX)
        delivered = source.as_delivered(ready.start, messages, redelivered=ready.redelivered)
        taken = source.ready.take(len(messages))
        source.consumers.serve(consumer)
        try:
            consumer.deliver(taken.start, delivered, redelivered=taken.redelivered)
        except Exception:
            # It did not begin. A mistake of ours must not keep them from being anywhere (I8).
            source.ready.requeue(taken.start, taken.end, redelivered=taken.redelivered)
            raise
        if len(messages) < len(ready):
            return True
        # Ranges can be short; one turn a range would starve a long list of them.
        count = min(count - len(messages), consumer.credit)
    return True
