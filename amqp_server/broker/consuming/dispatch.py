"""Hands a source's ready messages to its consumers, in turn and limited by their credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.storing.journal_requests import up_to

if TYPE_CHECKING:
    from collections.abc import Collection

    from amqp_server.base.time_slice import TimeSlice
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.source import Source

RUN_MESSAGES_MAX = 4096
"""Most messages that one consumer gets at a time."""
STEP_CONSUMERS = 4
"""Consumers that are served even if the slice is over: what is cut off is shared out again."""
STEP_ABLE = 256
"""Consumers with credit of which one turn looks for more: a queue may have tens of thousands."""
STEP_ASIDE = 1024
"""Most consumers that one turn puts aside."""
FEW_PASSED = 64
"""Consumers that are passed each time; more are put aside."""
RUN_BYTES_MAX = 512 * 1024
"""Most message bytes that one consumer gets at a time; a larger message goes alone."""


def dispatch(source: Source, time_slice: TimeSlice) -> Consumer | None:
    """Give one run to each consumer of `source` that has credit, until the slice is over.

    Consumers of a lower priority get messages only when those of a higher one have no credit.

    Args:
        source: Source of the messages; at least one is ready.
        time_slice: Ends the round early.

    Returns:
        A consumer whose client the rest is work for, if messages are left for the next turn: one
        that has been served and can take more, or one that was passed, if others are left to look
        at.
    """
    if len(source.ready) == 1 and _deliver_lone(source, time_slice):
        return None
    # A level from which all are put aside is none of the levels any more.
    for level in tuple(source.consumers.levels):
        able, first_credit, unable = _with_credit(level)
        is_cut = len(able) == STEP_ABLE or len(unable) == STEP_ASIDE < len(level)
        if len(unable) > FEW_PASSED:
            source.consumers.put_aside(unable)
        if not able:
            if is_cut:
                return unable[0]
            continue
        # Those behind may have credit too: each gets no more than if all of them had.
        count = len(level) if is_cut else len(able)
        if not _give_each_a_run(source, able, count, first_credit, time_slice):
            return None
        if not len(source.ready):
            return None
        for consumer in able:
            if consumer.credit:
                return consumer
        if is_cut:
            return able[0]
    return None


def _with_credit(level: Collection[Consumer]) -> tuple[list[Consumer], int, list[Consumer]]:
    """Return who has credit, how much the first of them has, and who may be put aside.

    These have reached their own limit, or their channel is closed. At most `STEP_ABLE` and
    `STEP_ASIDE`: those behind are not looked at.
    """
    able: list[Consumer] = []
    unable: list[Consumer] = []
    first_credit = 0
    for consumer in level:
        # A tenth of the time of `credit`.
        is_full = consumer.unacked >= consumer.prefetch > 0
        credit = 0 if is_full else consumer.credit
        if is_full or (not credit and consumer.channel.is_closed):
            unable.append(consumer)
            if len(unable) == STEP_ASIDE:
                break
        elif credit:
            first_credit = first_credit or credit
            able.append(consumer)
            if len(able) == STEP_ABLE:
                break
    return able, first_credit, unable


def _deliver_lone(source: Source, time_slice: TimeSlice) -> bool:
    """Give the only ready message to the consumer whose turn it is: nothing is shared out.

    Returns:
        Whether all was done; False: many consumers have no credit, so some may be put aside.
    """
    passed = 0
    for level in source.consumers.levels:
        for consumer in level:
            if not consumer.unacked >= consumer.prefetch > 0 and consumer.credit:
                _deliver_run(source, consumer, 1, time_slice)
                return True
            passed += 1
            if passed > FEW_PASSED:
                return False
    return True


def _give_each_a_run(
    source: Source, able: list[Consumer], count: int, first_credit: int, time_slice: TimeSlice
) -> bool:
    """Give one run to each of some consumers with equal priority.

    If there are few messages for many consumers, each gets an equal share. A lone consumer gets
    as many as its credit allows, up to the limits of a run.

    Args:
        source: Source of the messages.
        able: Consumers that have credit.
        count: Consumers that share the messages; with more than `able`, the others come later.
        first_credit: Credit of the first one.
        time_slice: Ends the round early.

    Returns:
        False while messages are being read from the log; the source gets a turn when they arrive.
    """
    next_in_turn: list[Consumer] = []
    for served, consumer in enumerate(able):
        # Read the credit of the others again: consumers of one channel may share it.
        credit = consumer.credit if served else first_credit
        if credit == 0:
            continue
        share, rest = divmod(len(source.ready), count - served)
        if rest:
            share += 1
            next_in_turn.append(consumer)
        if share == 0:
            break
        if not _deliver_run(source, consumer, min(share, credit, RUN_MESSAGES_MAX), time_slice):
            return False
        if STEP_CONSUMERS <= served + 1 < len(able) and time_slice.is_over:
            # The consumers that were not served are first in the next turn.
            break
    for consumer in next_in_turn:
        # A consumer that got one message less comes first in the next turn, as if the messages had
        # been delivered one by one.
        source.consumers.serve(consumer)
    return True


def _deliver_run(source: Source, consumer: Consumer, count: int, time_slice: TimeSlice) -> bool:
    while count > 0:
        ready = source.ready.peek()
        if ready is None:
            return True
        size = ready.end - ready.start
        messages = source.read_run(ready.start, ready.start + min(count, size))
        if not messages:
            return False
        if len(messages) > 1:
            if isinstance(messages, list):
                messages = up_to(messages, RUN_BYTES_MAX)
            else:
                messages = messages.up_to(RUN_BYTES_MAX)
        delivered = source.as_delivered(ready.start, messages, redelivered=ready.redelivered)
        taken = source.ready.take(len(messages))
        if source.consumers.count > 1:
            source.consumers.serve(consumer)
        try:
            consumer.deliver(taken.start, delivered, redelivered=taken.redelivered)
        except Exception:
            # The delivery did not start. Without this the messages would be neither ready nor
            # unacked (I8).
            source.ready.requeue(taken.start, taken.end, redelivered=taken.redelivered)
            raise
        if len(messages) < size or len(messages) >= count or not len(source.ready):
            return True
        # Ranges may be short; with one range a turn, a long list of them would take too long.
        count = min(count - len(messages), consumer.credit)
        if time_slice.is_over:
            return True
    return True
