"""Answers of one client in the order of its requests, though some of them wait for the disk.

Declares, binds and deletes are carried out one after another, but their definitions may go to the
disk together: what follows such a request is handled while it waits, and its answer queues up
behind. Every other method has to be alone, and is handled when nothing waits any more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from amqp_server.protocol import framing
from amqp_server.protocol.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

WAITING_MAX = 1024
"""Answers that may wait at a time; more requests of the client are not handled."""

_CHANGES = (
    QueueDeclare,
    QueueBind,
    QueueUnbind,
    QueueDelete,
    ExchangeDeclare,
    ExchangeBind,
    ExchangeUnbind,
    ExchangeDelete,
)
_CHANGE_IDS = {
    change.class_id.to_bytes(2, "big") + change.method_id.to_bytes(2, "big") for change in _CHANGES
}


class _Reply(NamedTuple):
    after: asyncio.Future[Any] | None
    send: Callable[[], None]


class ReplyQueue:
    """What is still to be sent to one client.

    Args:
        moved: Called when answers that waited were sent.
    """

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._line: deque[_Reply] = deque()
        self._is_ended = False

    @property
    def is_waiting(self) -> bool:
        """Whether an answer waits."""
        return bool(self._line)

    def admits(self, event: tuple[Any, ...]) -> bool:
        """Return whether an event may be handled before all that waits is sent."""
        if not self._line:
            return True
        return (
            not self._is_ended
            and len(self._line) < WAITING_MAX
            and event[0] == framing.METHOD
            and event[2][:4] in _CHANGE_IDS
        )

    def wait(self, after: asyncio.Future[Any], send: Callable[[], None], payload: bytes) -> None:
        """Send a reply when `after` is done, and all before it is sent.

        Args:
            after: What the request waits for.
            send: Sends its reply.
            payload: The request. Behind one that changes no definition nothing is admitted: a
                queue.delete behind a tx.commit has to see what the commit publishes.
        """
        self._is_ended = self._is_ended or payload[:4] not in _CHANGE_IDS
        self._line.append(_Reply(after, send))
        after.add_done_callback(self._advance)

    def put(self, send: Callable[[], None]) -> None:
        """Send a reply when all before it is sent; at once when nothing waits."""
        if self._line:
            self._line.append(_Reply(None, send))
        else:
            send()

    def end_with(self, send: Callable[[], None]) -> None:
        """Send a reply as `put` does, and admit nothing before that."""
        self._is_ended = bool(self._line)
        self.put(send)

    def _advance(self, _: asyncio.Future[Any]) -> None:
        sent = 0
        while self._line and ((after := self._line[0].after) is None or after.done()):
            # Still in the line meanwhile: what it leads to must not overtake it.
            self._line[0].send()
            self._line.popleft()
            sent += 1
        self._is_ended = self._is_ended and bool(self._line)
        if sent:
            self._moved()
