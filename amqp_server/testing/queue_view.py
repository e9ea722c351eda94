"""One queue of a broker in a test: what it holds, and waiting until it holds something else."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from amqp_server.broker.message_states import MessageState, states_of
from amqp_server.broker.subscriptions.log_pages import LogPage, read_page
from amqp_server.testing.broker_view import BrokerView, QueueCounts
from amqp_server.testing.errors import BrokerStateError, NoSuchQueueError
from amqp_server.testing.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from amqp_server.broker.queue import Queue
    from amqp_server.server import Server

    ResultT = TypeVar("ResultT")

SECONDS_MAX: Final = 5.0
"""Seconds that a wait takes at most, unless the test says otherwise."""
LOOK_SECONDS: Final = 0.002
"""Seconds between two looks at what is waited for."""
_PAGE_BYTES: Final = 1 << 20
_PAGE_MESSAGES: Final = 1000


class ServerLoop(Protocol):
    """Runs coroutines on the loop of the broker's server."""

    def submit(self, make: Callable[[Server], Coroutine[Any, Any, ResultT]]) -> Future[ResultT]:
        """Call a coroutine function with the server; return the future of its result."""


class QueueView:
    """A queue by its name, which may be declared later.

    Args:
        loop: Loop of the broker's server.
        vhost: Virtual host of the queue.
        name: Name of the queue.

    Attributes:
        name: Name of the queue.
    """

    def __init__(self, loop: ServerLoop, vhost: str, name: str) -> None:
        self.name = name
        self._loop = loop
        self._vhost = vhost

    @property
    def counts(self) -> QueueCounts:
        """All counts at one moment.

        Raises:
            NoSuchQueueError: There is no such queue.
        """
        return self._loop.submit(self._counts).result()

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer; raises as `counts`."""
        return self.counts.ready

    @property
    def unacked(self) -> int:
        """Messages that consumers have; raises as `counts`."""
        return self.counts.unacked

    @property
    def published(self) -> int:
        """Messages that came in since the start of the broker; raises as `counts`."""
        return self.counts.published

    def messages(self, limit: int = 1000) -> list[Message]:
        """Return the messages that the queue holds, the oldest first; takes none.

        Args:
            limit: Most messages to return.

        Raises:
            NoSuchQueueError: There is no such queue.
        """
        unsettled = self._loop.submit(lambda server: self._unsettled(server, limit)).result()
        # Decoded in this thread: the broker's loop has clients to serve.
        return [Message.decode(octets, (self.name,), str(state)) for octets, state in unsettled]

    def wait_empty(self, seconds_max: float = SECONDS_MAX) -> None:
        """Return when every message was consumed and acknowledged.

        Raises:
            AssertionError: That takes longer than `seconds_max`; shows what the broker holds.
            BrokerStateError: The broker stops during that time.
        """
        _wait(self._loop.submit(lambda server: self._until_empty(server, seconds_max)))

    def wait_for(self, count: int, seconds_max: float = SECONDS_MAX) -> None:
        """Return when the queue holds `count` messages or more, ready or unacked.

        Raises:
            AssertionError: That takes longer than `seconds_max`; shows what the broker holds.
            BrokerStateError: The broker stops during that time.
        """
        _wait(self._loop.submit(lambda server: self._until_holds(server, count, seconds_max)))

    async def until_empty(self, seconds_max: float = SECONDS_MAX) -> None:
        """Wait as `wait_empty`, without blocking the caller's event loop."""
        waiting = self._loop.submit(lambda server: self._until_empty(server, seconds_max))
        await asyncio.wrap_future(waiting)

    async def until_holds(self, count: int, seconds_max: float = SECONDS_MAX) -> None:
        """Wait as `wait_for`, without blocking the caller's event loop."""
        waiting = self._loop.submit(lambda server: self._until_holds(server, count, seconds_max))
        await asyncio.wrap_future(waiting)

    # On the broker's loop

    def _find(self, server: Server) -> Queue:
        host = server.broker.vhosts.get(self._vhost)
        queues = {} if host is None else host.queues
        if self.name not in queues:
            there = ", ".join(f"'{name}'" for name in sorted(queues)) or "none"
            raise NoSuchQueueError(f"no queue '{self.name}'; the virtual host has: {there}")
        return queues[self.name]

    async def _counts(self, server: Server) -> QueueCounts:
        return QueueCounts.of(self._find(server))

    async def _unsettled(self, server: Server, limit: int) -> list[tuple[bytes, MessageState]]:
        queue = self._find(server)
        found: list[tuple[bytes, MessageState]] = []
        at, end = queue.first_offset, queue.store.end_offset
        while at < end and len(found) < limit:
            states = queue.message_states(at, end)
            page = await _read(queue, at, end)
            pairs = zip(page.messages, states_of(states, page.offsets), strict=True)
            found += [each for each in pairs if each[1] is not MessageState.SETTLED]
            at = page.next_offset
            await asyncio.sleep(0)
        return found[:limit]

    async def _until_empty(self, server: Server, seconds_max: float) -> None:
        await self._until(
            server,
            lambda unsettled: not unsettled,
            seconds_max,
            f"queue '{self.name}' is not empty after {seconds_max:g} s",
        )

    async def _until_holds(self, server: Server, count: int, seconds_max: float) -> None:
        await self._until(
            server,
            lambda unsettled: unsettled is not None and unsettled >= count,
            seconds_max,
            f"queue '{self.name}' does not hold {count} messages after {seconds_max:g} s",
        )

    async def _until(
        self,
        server: Server,
        is_reached: Callable[[int | None], bool],
        seconds_max: float,
        failure: str,
    ) -> None:
        """Return when the number of unsettled messages, None without a queue, is as wanted."""

        def count() -> int | None:
            host = server.broker.vhosts.get(self._vhost)
            queue = None if host is None else host.queues.get(self.name)
            return None if queue is None else _unsettled_count(queue)

        try:
            async with asyncio.timeout(seconds_max):
                while not is_reached(count()):  # noqa: ASYNC110 - any state, so there is no event
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            view = BrokerView.of(server, self._vhost)
            raise AssertionError(f"{failure}\n{view}") from None


def _unsettled_count(queue: Queue) -> int:
    return queue.ready_count + queue.unacked_count + queue.leaving_count


async def _read(queue: Queue, start: int, end: int) -> LogPage:
    """Return a page of messages, also those that readers of the log may not see yet."""
    store = queue.store
    if start < store.ring.window_start:
        behind = max(start + 1, min(queue.visible_end, end))
        return await read_page(queue, start, behind, _PAGE_BYTES, _PAGE_MESSAGES)
    messages = store.read_memory(start, min(end, start + _PAGE_MESSAGES))
    offsets = list(range(start, start + len(messages)))
    return LogPage(start + len(messages), offsets, [0] * len(messages), messages)


def _wait(waiting: Future[None]) -> None:
    try:
        waiting.result()
    except CancelledError:
        raise BrokerStateError("the broker was stopped while the test waited for a queue") from None
