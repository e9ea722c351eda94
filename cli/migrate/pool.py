"""Connections to the source, one for each virtual host and task that needs one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqp_server.shovel.link.connection import connect
from amqp_server.shovel.link.errors import LinkError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from amqp_server.shovel.link.amqp_uri import AmqpUri
    from amqp_server.shovel.link.connection import LinkConnection

RETRY_SECONDS_MAX: Final = 10.0
"""Longest pause between two attempts to reach the source."""
_RETRY_SECONDS: Final = 0.25
_SECONDS_MAX: Final = 20.0
"""Time for connecting and logging in."""
IDLE_MAX: Final = 8
"""Connections of a virtual host that are kept without use."""


class SourcePool:
    """Opens connections to the source, and keeps those that are not in use.

    Args:
        uri: Where the source is.
        name: Name that its connections have at the source.
        say: Is called with a line when the source goes, and when it is back.
    """

    def __init__(self, uri: AmqpUri, name: str, say: Callable[[str], None]) -> None:
        self._uri = uri
        self._properties = {"product": "amqp-server migrate", "connection_name": name}
        self._say = say
        self._idle: dict[str, list[LinkConnection]] = defaultdict(list)
        self._is_away = False

    async def open(self, vhost: str) -> LinkConnection:
        """Return a new connection.

        Raises:
            LinkError: The source does not answer, or refuses.
        """
        seconds = min(self._uri.connection_timeout_seconds, _SECONDS_MAX)
        uri = replace(self._uri, vhost=vhost, connection_timeout_seconds=seconds)
        return await connect(uri, self._properties)

    @asynccontextmanager
    async def connection(self, vhost: str) -> AsyncIterator[LinkConnection]:
        """Yield a connection that no other task uses; wait for the source as long as it takes."""
        idle = self._idle[vhost]
        while idle and not idle[-1].is_open:
            idle.pop()
        connection = idle.pop() if idle else await self._reach(vhost)
        try:
            yield connection
        except BaseException:
            connection.abort()
            raise
        if connection.is_open and len(idle) < IDLE_MAX:
            idle.append(connection)
        else:
            await connection.close()

    async def close(self) -> None:
        """Close the connections that are not in use."""
        for connections in self._idle.values():
            while connections:
                await connections.pop().close()

    async def _reach(self, vhost: str) -> LinkConnection:
        seconds = _RETRY_SECONDS
        while True:
            try:
                connection = await self.open(vhost)
            except LinkError as error:
                if not self._is_away:
                    self._is_away = True
                    self._say(f"the source is away ({error}): trying until it is back")
            else:
                if self._is_away:
                    self._is_away = False
                    self._say("the source is back")
                return connection
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, RETRY_SECONDS_MAX)
