"""Replies to one client in the order of its requests, even if some wait for the disk.

The broker carries out declares, binds and deletes one after another, but it may write their
definitions together. So while one of them waits, the session handles the next one, and its reply
queues up behind. Every other method is handled only when no reply waits.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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

    from amqp_server.protocol.framing import Event

WAITING_MAX = 1024
"""Replies that may wait at the same time; above that the session handles no more requests."""

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
_CHANGE_IDS = {change.identity for change in _CHANGES}


class Reply(NamedTuple):
    """A reply, and the future that it comes after; None: it only waits for earlier replies."""

    after: asyncio.Future[Any] | None
    send: Callable[[], None]


class ReplyOwner(Protocol):
    """What handles the requests of one client."""

    def resume_handling(self) -> None:
        """Go on with what waits: replies were sent."""


class ReplyQueue:
    """Replies that are still to be sent to one client.

    Its owner passes itself when it waits: a reference back would make both garbage in a cycle.

    Attributes:
        waiting: Replies that wait, in order; only this queue changes it.
    """

    def __init__(self) -> None:
        self.waiting: deque[Reply] = deque()
        self._is_ended = False

    def admits(self, event: Event) -> bool:
        """Return whether an event may be handled before the waiting replies are sent."""
        if not self.waiting:
            return True
        return (
            not self._is_ended and len(self.waiting) < WAITING_MAX and event.identity in _CHANGE_IDS
        )

    def wait(
        self,
        owner: ReplyOwner,
        after: asyncio.Future[Any],
        send: Callable[[], None],
        identity: bytes,
    ) -> None:
        """Send a reply after `after` is done and all earlier replies are sent.

        Args:
            owner: Goes on then.
            after: Future that the request waits for.
            send: Sends its reply.
            identity: Of the request, as in `Method.identity`. If it changes no definition, `admits`
                returns False until its reply is sent: a queue.delete after a tx.commit must see
                what the commit publishes.
        """
        self._is_ended = self._is_ended or identity not in _CHANGE_IDS
        self.waiting.append(Reply(after, send))
        after.add_done_callback(partial(self._advance, owner))

    def put(self, send: Callable[[], None]) -> None:
        """Send a reply after all earlier ones; at once if none waits."""
        if self.waiting:
            self.waiting.append(Reply(None, send))
        else:
            send()

    def end_with(self, send: Callable[[], None]) -> None:
        """Send a reply as `put` does; until it is sent, `admits` returns False."""
        self._is_ended = bool(self.waiting)
        self.put(send)

    def cancel(self) -> None:
        """Cancel what the waiting replies wait for: their client has gone."""
        for reply in tuple(self.waiting):
            if reply.after is not None:
                reply.after.cancel()

    def _advance(self, owner: ReplyOwner, _: asyncio.Future[Any]) -> None:
        sent = 0
        while self.waiting and ((after := self.waiting[0].after) is None or after.done()):
            # Remove it only after it is sent: replies that sending causes must not overtake it.
            self.waiting[0].send()
            self.waiting.popleft()
            sent += 1
        self._is_ended = self._is_ended and bool(self.waiting)
        if sent:
            owner.resume_handling()
