"""pika's other ways of waiting: callbacks on its own loop, and on asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection

from tests.interop.conftest import Address
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop

MESSAGES = 500


class Conversation:
    """Publishes with confirms and consumes on the same channel, all by callbacks.

    Args:
        queue: To declare; it goes with the connection.
        ended: Called once the connection is closed.
    """

    def __init__(self, queue: str, ended: Callable[[], object]) -> None:
        self.queue = queue
        self.ended = ended
        self.confirmed: set[int] = set()
        self.bodies: list[bytes] = []
        self.end: BaseException | None = None
        self._connection: Any = None
        self._channel: Any = None
        self._confirmed_up_to = 0

    def opened(self, connection: Any) -> None:  # noqa: ANN401 - pika has no types
        """Begin: the connection is open."""
        self._connection = connection
        connection.channel(on_open_callback=self._channel_opened)

    def closed(self, _: object, reason: BaseException) -> None:
        """Finish, whatever the reason."""
        self.end = reason
        self.ended()

    def _channel_opened(self, channel: Any) -> None:  # noqa: ANN401
        self._channel = channel
        channel.confirm_delivery(
            self._confirmed, callback=lambda _: channel.queue_declare(
                self.queue, exclusive=True, callback=self._declared
            )
        )  # fmt: skip

    def _declared(self, _: object) -> None:
        self._channel.basic_qos(prefetch_count=50)
        self._channel.basic_consume(self.queue, self._received)
        for number in range(MESSAGES):
            self._channel.basic_publish("", self.queue, b"%d" % number)

    def _confirmed(self, frame: Any) -> None:  # noqa: ANN401
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        tag = frame.method.delivery_tag
        first = self._confirmed_up_to + 1 if frame.method.multiple else tag
        self._confirmed_up_to = max(self._confirmed_up_to, tag)
        self.confirmed.update(range(first, tag + 1))
        self._close_when_done()

    def _received(self, channel: Any, method: Any, _: object, body: bytes) -> None:  # noqa: ANN401
        self.bodies.append(body)
        if method.delivery_tag % 10 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        self._close_when_done()

    def _close_when_done(self) -> None:
        if len(self.confirmed) == len(self.bodies) == MESSAGES:
            self._connection.close()

    def check(self) -> None:
        """Check that it went well."""
        assert isinstance(self.end, pika.exceptions.ConnectionClosedByClient), self.end
        assert self.bodies == [b"%d" % number for number in range(MESSAGES)]
        assert self.confirmed == set(range(1, MESSAGES + 1))


def test_select_connection_confirms_and_consumes(address: Address, name: str) -> None:
    conversation = Conversation(name, lambda: connection.ioloop.stop())
    connection = pika.SelectConnection(
        pika.ConnectionParameters(*address),
        on_open_callback=conversation.opened,
        on_open_error_callback=conversation.closed,
        on_close_callback=conversation.closed,
    )
    connection.ioloop.call_later(HANG_SECONDS, connection.ioloop.stop)
    connection.ioloop.start()
    connection.ioloop.close()
    conversation.check()


async def test_asyncio_connection_confirms_and_consumes(address: Address, name: str) -> None:
    ended = asyncio.Event()
    conversation = Conversation(name, ended.set)
    connection = AsyncioConnection(
        pika.ConnectionParameters(*address),
        on_open_callback=conversation.opened,
        on_open_error_callback=conversation.closed,
        on_close_callback=conversation.closed,
        custom_ioloop=asyncio.get_running_loop(),
    )
    async with asyncio.timeout(HANG_SECONDS):
        await ended.wait()
    assert connection.is_closed
    conversation.check()
