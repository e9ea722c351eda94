"""Operations that begin when something else has ended: a deletion, or messages that expire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from amqp_server.broker.rights import AnswerAwaited, when_answered
from amqp_server.operations.applied import Applied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.consumer import ConsumedQueue
    from amqp_server.broker.pending_deletions import PendingDeletion
    from amqp_server.operations.applied import AppliedSteps, Operation
    from amqp_server.protocol.methods import Method

MethodT = TypeVar("MethodT", bound="Method")
ResultT = TypeVar("ResultT")


async def when_up_to_date(
    queue: ConsumedQueue,
    channel: Channel,
    operation: Callable[[Channel, MethodT], Awaitable[ResultT] | None],
    method: MethodT,
) -> ResultT | None:
    """Begin an operation again when the expired messages of its queue are gone.

    Only for methods that the connection handles alone: nothing that the client sent later may
    come before.

    Args:
        queue: Queue that is not up to date.
        channel: Channel of the client.
        operation: Has changed nothing yet; it looks up everything again.
        method: What is wanted.
    """
    await queue.until_up_to_date()
    while not channel.is_closed:
        try:
            done = operation(channel, method)
        except AnswerAwaited as awaited:
            await asyncio.wait([awaited.answer])
        else:
            return None if done is None else await done
    return None


def when_deleted(
    pending: Callable[[], PendingDeletion | None],
    channel: Channel,
    operation: Callable[[Channel, MethodT], Operation[ResultT]],
    method: MethodT,
) -> AppliedSteps[ResultT]:
    """Take the steps of other clients' deletions, then begin an operation again.

    Args:
        pending: Returns a deletion that must end before the operation can begin; None when there is
            none any more. There may have been thousands.
        channel: Channel of the client.
        operation: Has changed nothing yet; it checks everything again.
        method: What is wanted.
    """
    while (deletion := pending()) is not None:
        yield from deletion.steps()
        yield

    def begin() -> Operation[ResultT] | None:
        return None if channel.is_closed else operation(channel, method)

    return (yield from completed((yield from when_answered(channel.client, begin))))


def completed(
    operation: Operation[ResultT] | None,
) -> Generator[None, None, Applied[ResultT] | None]:
    """Take the steps of a change, if it has any, and return it."""
    if operation is None or isinstance(operation, Applied):
        return operation
    return (yield from operation)
