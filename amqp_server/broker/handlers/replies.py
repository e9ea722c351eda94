"""Replies to a method: at once, or when the disk holds what the reply confirms."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Final, TypeVar

from amqp_server.broker.job import Job
from amqp_server.broker.rights import AnswerAwaited, when_answered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.consumer import ConsumedQueue
    from amqp_server.broker.deletion import Deletion
    from amqp_server.broker.handlers.handler import MethodSteps, Outcome
    from amqp_server.broker.pending_deletions import PendingDeletion
    from amqp_server.protocol.methods import Method

STEP_NOTICES: Final = 32
"""Notices that one step sends after a reply."""

MethodT = TypeVar("MethodT", bound="Method")


def send_reply(
    channel: Channel,
    reply: Method | None,
    after: Awaitable[None] | None = None,
    notices: Sequence[Method] = (),
) -> Awaitable[Method | None] | None:
    """Send a reply, unless the client asked for none.

    Args:
        channel: Channel of the method.
        reply: The reply; None sends nothing.
        after: Awaited before the reply, or None.
        notices: Notices of the same change for the same channel, sent after the reply. They are
            not sent if `after` fails.

    Returns:
        What the connection has to await, with the reply as its result; None if the reply is
        sent already.
    """
    if after is not None:
        return _reply_after(channel, reply, after, notices)
    if reply is not None:
        channel.reply(reply)
    _send_after(channel, notices)
    return None


async def when_up_to_date(
    queue: ConsumedQueue,
    channel: Channel,
    handler: Callable[[Channel, MethodT], Awaitable[Method | None] | None],
    method: MethodT,
) -> Method | None:
    """Handle a method again when the expired messages of its queue are gone.

    Only for methods that the connection handles alone: nothing that the client sent later may
    come before.

    Args:
        queue: Queue that is not up to date.
        channel: Channel of the method.
        handler: Handler that has changed nothing yet; it looks up everything again.
        method: The method.
    """
    await queue.until_up_to_date()
    while not channel.is_closed:
        try:
            done = handler(channel, method)
        except AnswerAwaited as awaited:
            await asyncio.wait([awaited.answer])
        else:
            return None if done is None else await done
    return None


def reply_after_deletion(channel: Channel, reply: Method | None, deletion: Deletion) -> Outcome:
    """Take the first step of a deletion; reply when nothing of it can come back.

    As in RabbitMQ the reply comes before the cancellations on its own channel: clients take a
    cancellation that comes before the reply for one by another client.

    Args:
        channel: Channel of the method.
        reply: The reply; None sends nothing.
        deletion: Deletion that the method has begun.

    Returns:
        What the connection has to await, or the steps that are left.
    """
    if deletion.take_step():
        return send_reply(channel, reply, deletion.finish(), deletion.notices)
    return _rest_of_deletion(channel, reply, deletion)


def _rest_of_deletion(channel: Channel, reply: Method | None, deletion: Deletion) -> MethodSteps:
    yield
    yield from deletion.steps()
    return send_reply(channel, reply, deletion.finish(), deletion.notices)


def when_deleted(
    pending: Callable[[], PendingDeletion | None],
    channel: Channel,
    handler: Callable[[Channel, MethodT], Outcome],
    method: MethodT,
) -> MethodSteps:
    """Take the steps of other clients' deletions, then handle a method again.

    Args:
        pending: Returns a deletion that must end before the method can be handled; None when there
            is none any more. There may have been thousands.
        channel: Channel of the method.
        handler: Handler that has changed nothing yet; it checks everything again.
        method: The method.
    """
    while (deletion := pending()) is not None:
        yield from deletion.steps()
        yield

    def handle() -> Outcome:
        return None if channel.is_closed else handler(channel, method)

    done = yield from when_answered(channel.client, handle)
    return (yield from done) if isinstance(done, Generator) else done


async def _reply_after(
    channel: Channel, reply: Method | None, after: Awaitable[None], notices: Sequence[Method]
) -> Method | None:
    await after
    # The client's reply queue keeps a place for the reply, so the notices come after it.
    _send_after(channel, notices)
    return reply


def _send_after(channel: Channel, notices: Sequence[Method]) -> None:
    if notices:
        steps = _send_in_steps(channel, notices)
        Job(channel.broker.turn, channel.client.task_queue, steps, "notices after a reply").start()


def _send_in_steps(channel: Channel, notices: Sequence[Method]) -> Iterator[None]:
    for at in range(0, len(notices), STEP_NOTICES):
        for notice in notices[at : at + STEP_NOTICES]:
            channel.reply(notice)
        yield
