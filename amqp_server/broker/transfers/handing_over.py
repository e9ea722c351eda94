"""Hands messages of one queue over to another one: none is lost, whatever happens in between.

A message is taken out of its queue before its copy is published, so no consumer gets it during that
time, and is settled when the copy is safe. After a crash between the two there are both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.transfers.safe_publishes import SafePublishes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.orders.ready_ranges import ReadyRange
    from amqp_server.broker.queue import Queue


class CopyAt(NamedTuple):
    """The copy of a message for another queue.

    Attributes:
        offset: Offset of the message in its queue.
        copy: The message to publish there.
    """

    offset: int
    copy: bytes


class HandedOver(NamedTuple):
    """Outcome for messages; those that were not ready any more are in neither.

    Attributes:
        copies: Those that the other queue has.
        refused: How many it did not take: they are ready again, as they were.
    """

    copies: Sequence[CopyAt]
    refused: int


async def hand_over(source: Queue, target: Queue, copies: Sequence[CopyAt]) -> HandedOver:
    """Hand over those messages that are ready now; return when their copies are safe.

    Args:
        source: Queue that they leave.
        target: Queue that gets the copies.
        copies: Copies, by ascending offset.
    """
    taken = [
        (each, run)
        for each in copies
        for run in source.ready.take_range(each.offset, each.offset + 1)
    ]
    done = 0
    try:
        done = await _publish_safely(target, [each.copy for each, _ in taken])
    finally:
        # Also when the request ends in between: what was published is safe, or is there twice.
        if not source.is_deleted:
            for each, _ in taken[:done]:
                source.settle(each.offset, each.offset + 1)
            _give_back(source, [run for _, run in taken[done:]])
    return HandedOver([each for each, _ in taken[:done]], len(taken) - done)


def _give_back(source: Queue, runs: Sequence[ReadyRange]) -> None:
    """Make messages ready again, as they were."""
    for run in runs:
        # Its log may not have it any more: old segments are removed with unsettled messages.
        for start, end in source.forced_removal.drop_returned(source, [(run.start, run.end)]):
            source.ready.requeue(start, end, redelivered=run.redelivered)
            if source.rules is not None:
                source.rules.on_requeued(start, end)
    source.wake()


async def _publish_safely(target: Queue, copies: list[bytes]) -> int:
    """Publish messages into a queue; return how many are safe there."""
    if not copies:
        return 0

    def check() -> None:
        if target.is_deleted or target.is_failed:
            raise _TargetGoneError

    publishes = SafePublishes(target, check)
    try:
        check()
        count = await publishes.publish(copies)
        await publishes.until_safe()
        if target.is_journaled:
            # The target's own durability may promise less than this does.
            await target.store.make_durable()
            check()
    except _TargetGoneError:
        return 0
    return 0 if publishes.is_refused else count


class _TargetGoneError(Exception):
    """The queue was deleted, or its log failed: nothing may have arrived."""
