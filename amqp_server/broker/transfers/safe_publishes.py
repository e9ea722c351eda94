"""Publishing into one queue by the server itself, and waiting until the messages are safe."""

from __future__ import annotations

import asyncio
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from amqp_server.broker.publishing.confirms import PublisherConfirms
from amqp_server.broker.publishing.enqueue import enqueue
from amqp_server.broker.rules.overflow import has_room_for
from amqp_server.broker.storing.window_reader import wake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amqp_server.broker.queue import Queue

RUN_MESSAGES: Final = 1024
"""Neighbours that are alike, published at once."""


class SafePublishes:
    """Messages on their way into a queue; a `ConfirmWaiter`. The event loop owns it.

    Args:
        target: The queue.
        check: Raises when nothing more must be published; called whenever it has waited.

    Attributes:
        is_refused: Whether the queue's log has failed before messages were safe in it.
    """

    def __init__(self, target: Queue, check: Callable[[], None]) -> None:
        self.is_refused = False
        self._target = target
        self._check = check
        self._confirms = PublisherConfirms()
        self._waiters: list[asyncio.Future[None]] = []

    # For who tells what is safe

    @property
    def awaits_confirms(self) -> bool:
        """Whether messages are not safe yet."""
        return bool(self._confirms) or self._target.store.is_stalled

    def release_confirms(self) -> None:
        """Look again at what has become safe."""
        self.is_refused |= any(answer.refused for answer in self._confirms.release())
        wake(self._waiters)

    def refuse_confirms(self, queue: Queue) -> None:
        """Give up what is not safe in a queue whose log has failed."""
        self.is_refused |= bool(self._confirms.refuse(queue))

    # For who publishes

    async def publish(self, messages: Sequence[bytes], transaction_id: bytes = b"") -> int:
        """Publish messages in order; return how many: all, or those for which there was room.

        Args:
            messages: As in the log.
            transaction_id: What their chunks are to carry; empty for nothing.
        """
        target, count = self._target, 0
        # A queue that refuses has to be asked for each.
        run_max = 1 if target.refuses_when_full else RUN_MESSAGES
        for flags, run in groupby(messages, key=itemgetter(0)):
            neighbours = list(run)
            for at in range(0, len(neighbours), run_max):
                part = neighbours[at : at + run_max]
                while target.store.is_stalled and not target.is_deleted:
                    await self._wait()
                self._check()
                if target.refuses_when_full and not has_room_for(target, part):
                    return count
                start = target.store.end_offset
                barriers, _ = enqueue([target], part, flags)
                if transaction_id and target.is_journaled:
                    end = target.store.end_offset
                    target.store.mark_transaction(start, end, transaction_id)
                self._confirms.add(len(part), barriers)
                count += len(part)
        return count

    async def until_safe(self) -> None:
        """Return when all that was published is safe, or refused."""
        self.release_confirms()
        while self._confirms:
            await self._wait()
        self._check()

    async def _wait(self) -> None:
        """Return when something has moved in the target."""
        self._target.waiting_confirms.add(self)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
