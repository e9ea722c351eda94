"""Replies to a method: at once, or when the change that it asked for is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from amqp_server.broker.job import Job
from amqp_server.operations.applied import Applied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from amqp_server.broker.channel import Channel
    from amqp_server.connections.handlers.handler import MethodSteps, Outcome, Waiting
    from amqp_server.operations.applied import AppliedSteps, Operation
    from amqp_server.protocol.methods import Method

STEP_NOTICES: Final = 32
"""Notices that one step sends after a reply."""

ResultT = TypeVar("ResultT")


def reply_to(
    channel: Channel, operation: Operation[ResultT], reply: Callable[[ResultT], Method | None]
) -> Outcome:
    """Reply to a method when its change is durable, and send the notices of the change.

    Args:
        channel: Channel of the method.
        operation: What the operation has returned.
        reply: Returns the reply for the result of the change; None if the client asked for none.

    Returns:
        What the connection has to await, with the reply as its result, or the steps that are
        left; None if the reply is sent already.
    """
    if isinstance(operation, Applied):
        return _reply(channel, operation, reply)
    return _reply_after_steps(channel, operation, reply)


def _reply_after_steps(
    channel: Channel, steps: AppliedSteps[ResultT], reply: Callable[[ResultT], Method | None]
) -> MethodSteps:
    applied = yield from steps
    return None if applied is None else _reply(channel, applied, reply)


def _reply(
    channel: Channel, applied: Applied[ResultT], reply: Callable[[ResultT], Method | None]
) -> Waiting:
    if applied.durable is not None:
        return _reply_when_durable(channel, applied, reply)
    method = reply(applied.result)
    if method is not None:
        channel.reply(method)
    _send_after(channel, applied.notices)
    return None


async def _reply_when_durable(
    channel: Channel, applied: Applied[ResultT], reply: Callable[[ResultT], Method | None]
) -> Method | None:
    assert applied.durable is not None, "the caller has looked"
    await applied.durable
    # The client's reply queue keeps a place for the reply, so the notices come after it.
    _send_after(channel, applied.notices)
    return reply(applied.result)


def _send_after(channel: Channel, notices: Sequence[Method]) -> None:
    if notices:
        steps = _send_in_steps(channel, notices)
        Job(channel.broker.turn, channel.client.task_queue, steps, "notices after a reply").start()


def _send_in_steps(channel: Channel, notices: Sequence[Method]) -> Iterator[None]:
    for at in range(0, len(notices), STEP_NOTICES):
        for notice in notices[at : at + STEP_NOTICES]:
            channel.reply(notice)
        yield
