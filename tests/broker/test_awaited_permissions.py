"""Methods whose permissions a back end has to be asked for when they are handled again."""

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

from amqp_server.broker.channel import Channel
from amqp_server.broker.consuming.consumer import ConsumedQueue
from amqp_server.broker.inner_client import InnerClient
from amqp_server.broker.rights import ROUNDS_MAX, AnswerAwaited, when_answered
from amqp_server.broker.turn import Turn
from amqp_server.operations.applied import Applied
from amqp_server.operations.deferring import when_deleted, when_up_to_date
from amqp_server.protocol.methods import BasicGet, QueueDeclare
from tests.broker.channels import a_channel


class WaitingClient(InnerClient):
    """A client that waits for answers, as one with a connection does."""

    def wait_for_answer(self, answer: asyncio.Future[None]) -> bool:
        return True


class Handler:
    """Knows the permission when it is called for the second time.

    Attributes:
        calls: Whether the channel was closed at each call.
        answer: What it waits for.
    """

    def __init__(self) -> None:
        self.calls: list[bool] = []
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self, channel: Channel, method: BasicGet | QueueDeclare) -> None:
        self.calls.append(channel.is_closed)
        if len(self.calls) == 1:
            raise AnswerAwaited("not known yet", self.answer)


class QuietQueue:
    """A queue in which nothing is due."""

    async def until_up_to_date(self) -> None:
        """Return."""


def waiting_channel() -> Channel:
    turn = Turn(lambda call: pytest.fail("no turn"), lambda seconds, call: pytest.fail("no timer"))
    return a_channel(turn, WaitingClient("test"))


@pytest.mark.parametrize("closes", [True, False])
async def test_a_get_is_not_handled_after_the_end_of_its_channel(closes: bool) -> None:
    # The message would be unacked for good.
    channel, handler = waiting_channel(), Handler()
    queue = cast("ConsumedQueue", QuietQueue())
    due: asyncio.Future[str | None] = asyncio.ensure_future(
        when_up_to_date(queue, channel, handler, BasicGet(queue="q"))
    )
    while not handler.calls:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    if closes:
        channel.end()
    handler.answer.set_result(None)
    assert await due is None
    assert handler.calls == ([False] if closes else [False, False])


@pytest.mark.parametrize("closes", [True, False])
async def test_a_declare_is_not_handled_after_the_end_of_its_channel(closes: bool) -> None:
    # An exclusive queue would stay for good.
    channel, handler = waiting_channel(), Handler()

    def declare(channel: Channel, method: QueueDeclare) -> Applied[None]:
        handler(channel, method)
        return Applied(None)

    steps: Iterator[None] = when_deleted(lambda: None, channel, declare, QueueDeclare(queue="q"))
    next(steps)
    if closes:
        channel.end()
    assert list(steps) == []
    assert handler.calls == ([False] if closes else [False, False])


def test_a_method_does_not_ask_for_ever() -> None:
    # The first answers may count no more when the last one comes.
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        raise AnswerAwaited("not known yet", cast("asyncio.Future[None]", None))

    with pytest.raises(AnswerAwaited, match="not known yet"):
        list(when_answered(WaitingClient("test"), ask))
    assert asked == ROUNDS_MAX
