"""A feed: what the broker tells one follower, handed on to many HTTP clients.

The broker has few places for followers, so all clients of a feed share one. It follows while there
are clients, and a while longer, so that a client that comes again misses nothing. What waits for a
client is bounded: one that does not read is cut off, and comes again with the last thing it had.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqp_server.management.broker_client import BrokerAway, BrokerRefused
from amqp_server.management.following.server_sent import HEARTBEAT, encode_event
from amqp_server.management.http.answers import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from amqp_server.management.broker_client import BrokerClient

    IsWanted = Callable[[Mapping[str, Any]], bool]

logger = logging.getLogger("amqp_server.management.following.feed")

CLIENTS_MAX: Final = 64
"""Clients of one feed; one more is refused."""
KEPT_MAX: Final = 500
"""Items that are kept for clients that come again."""
WAITING_MAX: Final = 1000
"""Items that may wait for one client; then its stream ends."""
HEARTBEAT_SECONDS: Final = 15.0
LINGER_SECONDS: Final = 30.0
"""Seconds for which the feed goes on without clients."""
AGAIN_SECONDS: Final = 1.0
"""Seconds after which the broker is asked again when it was away."""
STREAM_SECONDS_MAX: Final = 600.0
"""Seconds of one stream: then its client comes again, and shows again that it may see this."""


class _Item(NamedTuple):
    number: int
    value: Mapping[str, Any]
    name: str = ""


class _Client:
    def __init__(self, is_wanted: IsWanted) -> None:
        self.waiting: deque[_Item] = deque()
        self.is_cut_off = False
        self.woken = asyncio.Event()
        self._is_wanted = is_wanted

    def put(self, item: _Item) -> None:
        if not item.name and not self._is_wanted(item.value):
            return
        if len(self.waiting) >= WAITING_MAX:
            self.is_cut_off = True
            self.waiting.clear()
        elif not self.is_cut_off:
            self.waiting.append(item)
        self.woken.set()


class Feed:
    """One feed. The event loop owns it.

    Args:
        broker: Sends commands to the broker.
        command: Command that follows.
        key: Name of the list in its progress reports.
        arguments: Arguments of the command.
    """

    def __init__(
        self,
        broker: BrokerClient,
        command: str,
        key: str,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self._broker = broker
        self._command = command
        self._key = key
        self._arguments = dict(arguments or {})
        # Numbers of another process, or of an earlier feed, mean nothing here.
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[_Item] = deque(maxlen=KEPT_MAX)
        self._clients: dict[_Client, None] = {}
        self._following: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()
        self._ending: asyncio.TimerHandle | None = None

    def stream(
        self, last_event_id: str, is_wanted: IsWanted, earlier_max: int = 0
    ) -> AsyncIterator[bytes]:
        """Return the parts of a stream, which begins now.

        Args:
            last_event_id: Last identity that the client has; empty if it comes first.
            is_wanted: Returns whether an item is for this client.
            earlier_max: Most items from before that a client gets that comes first.

        Raises:
            ApiError: There are as many clients as may be.
        """
        if len(self._clients) >= CLIENTS_MAX:
            reason = f"{CLIENTS_MAX} clients follow this, the limit: try again later"
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", reason)
        return self._parts(_Client(is_wanted), last_event_id, earlier_max)

    async def stop(self) -> None:
        """Follow no more: streams get nothing from now on."""
        if self._ending is not None:
            self._ending.cancel()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))
            self._following = None

    async def _parts(
        self, client: _Client, last_event_id: str, earlier_max: int
    ) -> AsyncIterator[bytes]:
        # Each step may run in a task of its own: no timeout may last over two of them.
        if len(self._clients) >= CLIENTS_MAX:
            return
        clock = asyncio.get_running_loop().time
        end_seconds = clock() + STREAM_SECONDS_MAX
        self._clients[client] = None
        self._keep_following()
        first = self._first_number(last_event_id, self._number - earlier_max)
        try:
            # Headers go out with the first part: who has got them misses nothing from then on.
            await self._begun.wait()
            yield HEARTBEAT
            client.waiting.clear()
            for item in self._kept:
                if item.number > first:
                    client.put(item)
            while not client.is_cut_off and clock() < end_seconds:
                if not client.waiting:
                    client.woken.clear()
                    yield await self._heartbeat(client)
                while client.waiting:
                    yield self._encode(client.waiting.popleft())
        finally:
            self._forget(client)

    async def _heartbeat(self, client: _Client) -> bytes:
        """Wait for an item; return a heartbeat if none came in time, else nothing."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await client.woken.wait()
        except TimeoutError:
            return HEARTBEAT
        return b""

    def _first_number(self, last_event_id: str, first: int) -> int:
        """Return the number after which a client gets items: `first` if it comes first."""
        epoch, _, number = last_event_id.partition("-")
        if epoch == self._epoch and number.isascii() and number.isdecimal():
            return int(number[:18])
        return first

    def _encode(self, item: _Item) -> bytes:
        identity = f"{self._epoch}-{item.number}"
        return encode_event(item.value, name=item.name, identity=identity)

    def _forget(self, client: _Client) -> None:
        self._clients.pop(client, None)
        if not self._clients and self._ending is None:
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(LINGER_SECONDS, self._end_if_unused)

    def _end_if_unused(self) -> None:
        self._ending = None
        if not self._clients and self._following is not None:
            self._following.cancel()
            self._following = None
            self._begun.clear()
            # What comes until somebody follows again is not seen.
            self._kept.clear()

    def _keep_following(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name=self._command)

    async def _follow(self) -> None:
        """Follow the broker, again and again, until cancelled."""
        while True:
            try:
                await self._broker.call(self._command, self._arguments, on_progress=self._take)
            except (BrokerAway, BrokerRefused) as error:
                logger.info("%s interrupted reason=%s", self._command, error)
            # Whoever waits for the beginning must not wait for the broker.
            self._begun.set()
            await asyncio.sleep(AGAIN_SECONDS)

    def _take(self, progress: dict[str, Any]) -> None:
        for value in progress.get(self._key, ()):
            self._put(value)
        if lost := progress.get("lost", 0):
            self._put({"lost": lost}, "lost")
        self._begun.set()

    def _put(self, value: Mapping[str, Any], name: str = "") -> None:
        self._number += 1
        item = _Item(self._number, value, name)
        self._kept.append(item)
        for client in self._clients:
            client.put(item)
