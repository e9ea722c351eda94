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


class _Answer(NamedTuple):
    after: asyncio.Future[Any] | None
    tell: Callable[[], None]


class AnswerLine:
    """What is still to be told to one client.

    Args:
        moved: Called when answers that waited were told.
    """

    def __init__(self, moved: Callable[[], None]) -> None:
        """Begin with nobody waiting."""
        self._moved = moved
        self._line: deque[_Answer] = deque()
        self._is_ended = False

    @property
    def is_waiting(self) -> bool:
        """Whether an answer waits."""
        return bool(self._line)

    def admits(self, event: tuple[Any, ...]) -> bool:
        """Return whether an event may be handled before all that waits is told."""
        if not self._line:
            return True
        return (
            not self._is_ended
            and len(self._line) < WAITING_MAX
            and event[0] == framing.METHOD
            and event[2][:4] in _CHANGE_IDS
        )

    def wait(self, after: asyncio.Future[Any], tell: Callable[[], None]) -> None:
        """Tell something when `after` is done, and all before it is told."""
        self._line.append(_Answer(after, tell))
        after.add_done_callback(self._advance)

    def put(self, tell: Callable[[], None]) -> None:
        """Tell something when all before it is told; at once when nothing waits."""
        if self._line:
            self._line.append(_Answer(None, tell))
        else:
            tell()

    def end_with(self, tell: Callable[[], None]) -> None:
        """Tell something as `put` does, and admit nothing before that."""
        self._is_ended = bool(self._line)
        self.put(tell)

    def _advance(self, _: asyncio.Future[Any]) -> None:
        told = 0
        while self._line and ((after := self._line[0].after) is None or after.done()):
            # Still in the line meanwhile: what it leads to must not overtake it.
            self._line[0].tell()
            self._line.popleft()
            told += 1
        self._is_ended = self._is_ended and bool(self._line)
        if told:
            self._moved()
