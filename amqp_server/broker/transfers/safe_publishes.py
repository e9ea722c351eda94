"""Messages that the broker itself publishes into one queue, waiting until they are safe."""

from __future__ import annotations

import asyncio
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.publishing.confirms import PublisherConfirms
from amqp_server.broker.publishing.enqueue import enqueue
from amqp_server.broker.storing.window_reader import wake
from amqp_server.broker.turn import TaskQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amqp_server.broker.publishing.target_queue import TargetQueue
    from amqp_server.broker.queue import Queue

RUN_MESSAGES: Final = 1024
"""Most messages with equal flags that are published at once."""


class SafePublishes:
    """Publishes messages into a queue; a `ConfirmWaiter`. The event loop owns it.

    Args:
        target: Queue that gets the messages.
        check: Raises if publishing must stop; called after each wait.
        may_drop: Whether a queue with a length limit may drop its oldest messages for these; if
            not, it refuses them, whatever its `x-overflow` says.

    Attributes:
        is_refused: Whether the queue's log failed before its messages were safe.
    """

    def __init__(self, target: Queue, check: Callable[[], None], *, may_drop: bool = True) -> None:
        self.is_refused = False
        self._may_drop = may_drop
        self.task_queue = TaskQueue()
        self._target = target
        self._check = check
        self._confirms = PublisherConfirms()
        self._waiters: list[asyncio.Future[None]] = []

    # Called by queues

    @property
    def awaits_confirms(self) -> bool:
        """Whether messages are not safe yet, or wait for room."""
        return bool(self._confirms) or self._target.is_stalled

    def release_confirms(self) -> None:
        """Wake the publisher: more messages may be safe."""
        self.is_refused |= any(result.refused for result in self._confirms.release())
        wake(self._waiters)

    def refuse_confirms(self, queue: TargetQueue) -> None:
        """Refuse the messages that are not safe in a queue whose log has failed."""
        self.is_refused |= bool(self._confirms.refuse(queue))

    # Called by the publisher

    async def publish(self, messages: Sequence[bytes], transaction_id: bytes = b"") -> int:
        """Publish messages in order, as far as there is room; return how many were published.

        Args:
            messages: Messages as in the log.
            transaction_id: Transaction that their chunks name; empty for none.
        """
        target = self._target
        count = 0
        time_slice = TimeSlice()
        # A queue that refuses when full has to be asked for each message.
        run_max = 1 if self._asks_for_room else RUN_MESSAGES
        for flags, run in groupby(messages, key=itemgetter(0)):
            neighbours = list(run)
            for at in range(0, len(neighbours), run_max):
                part = neighbours[at : at + run_max]
                while target.is_stalled and not target.is_deleted:
                    await self._wait()
                self._check()
                if self._asks_for_room and not self._has_room_for(part):
                    return count
                start = target.store.end_offset
                barriers, _ = enqueue([target], part, flags)
                if transaction_id and target.is_journaled:
                    end = target.store.end_offset
                    target.store.mark_transaction(start, end, transaction_id)
                self._confirms.add(len(part), barriers)
                count += len(part)
                await time_slice.yield_if_due()
        return count

    @property
    def _asks_for_room(self) -> bool:
        target = self._target
        return target.refuses_when_full or (not self._may_drop and target.has_length_limit)

    def _has_room_for(self, part: Sequence[bytes]) -> bool:
        rules = self._target.rules
        if not self._may_drop and rules is not None and rules.has_unknown_sizes:
            # The limit in octets drops what is above it as soon as the sizes are known.
            return False
        return self._target.has_room_for(part)

    async def until_safe(self) -> None:
        """Return when all published messages are safe or refused."""
        self.release_confirms()
        while self._confirms:
            await self._wait()
        self._check()

    async def _wait(self) -> None:
        """Return when the target has made progress."""
        self._target.waiting_confirms.add(self)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
