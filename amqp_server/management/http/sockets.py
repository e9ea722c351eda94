"""Bounds of the connections of HTTP clients: how many, and how long each may be idle.

An idle connection costs a timer and about 10 kB. A connection that sends its headers slowly counts
as idle, so it ends too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, RequestHandler, StreamResponse

logger = logging.getLogger("amqp_server.management.http.sockets")

SERVER: Final = "amqp-server"
"""What answers call the server."""
IDLE_SECONDS_MAX: Final = 75.0
"""Seconds until a request must have come with all its headers, since the connection or since the
last answer."""
LINE_BYTES_MAX: Final = 16 * 1024
"""Longest request line: a name of 255 bytes, each encoded with three, fits twenty times."""
HEADER_BYTES_MAX: Final = 24 * 1024
"""Longest header: a token of 16 KiB fits, as it is or as the password of Basic."""
HEADERS_MAX: Final = 64
UNREAD_SECONDS_MAX: Final = 1.0
"""Seconds for which the rest of a body that no handler wants is read before the connection ends."""

_silent: Final = logging.Logger("aiohttp.server")
"""Takes what the library logs on malformed requests: with tracebacks, as often as clients like."""
_silent.addHandler(logging.NullHandler())


class _Handler(web.RequestHandler):
    """Serves a connection; what is no HTTP is answered with a status alone.

    The library would send back what came, and say which version it has.
    """

    __slots__ = ()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        """Return the answer; the connection ends with it."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of another answer has been sent")
        response = web.Response(status=status, headers={"server": SERVER})
        response.headers.popall("content-type", None)
        response.force_close()
        return response


class BoundedServer(web.Server):
    """Serves connections, of which it keeps a bounded number.

    One more takes the place of the one that has been idle longest.

    Args:
        serve: Answers a request.
        connections_max: Connections that are kept.
    """

    def __init__(
        self,
        serve: Callable[[BaseRequest], Awaitable[StreamResponse]],
        connections_max: int,
    ) -> None:
        super().__init__(
            self._serve,
            access_log=None,
            logger=_silent,
            keepalive_timeout=IDLE_SECONDS_MAX,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            max_headers=HEADERS_MAX,
            lingering_time=UNREAD_SECONDS_MAX,
            auto_decompress=False,
        )
        self._serve_request = serve
        self._connections_max = connections_max
        self._count = 0
        self._idle: dict[RequestHandler, None] = {}

    def __call__(self) -> web.RequestHandler:
        """Return the handler of a new connection."""
        return _Handler(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Keep a new connection, and end another one if there are too many."""
        super().connection_made(handler, transport)
        self._idle[handler] = None
        self._count += 1
        if self._count > self._connections_max:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            # Not within the callback of the connection that has just begun.
            asyncio.get_running_loop().call_soon(oldest.force_close)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self._idle.pop(handler, None)
        self._count -= 1
        super().connection_lost(handler, exc)

    async def _serve(self, request: BaseRequest) -> StreamResponse:
        handler = request.protocol
        self._idle.pop(handler, None)
        try:
            return await self._serve_request(request)
        finally:
            if handler.transport is not None:
                self._idle[handler] = None
