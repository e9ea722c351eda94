"""Sends commands to the broker over its control socket, several at a time."""

from __future__ import annotations

import asyncio
import inspect
import socket
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.control.protocol import LINE_BYTES_MAX as REQUEST_BYTES_MAX
from amqp_server.control.protocol import (
    VERSION,
    ControlError,
    ErrorKind,
    decode_progress,
    decode_reply,
)
from amqp_server.control.socket_path import socket_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    OnProgress = Callable[[dict[str, Any]], Awaitable[None] | None]
    """Takes a progress report; the next one is read when it has returned."""

CONNECTIONS_MAX: Final = 12
"""Connections of one client at the same time; the broker has 32 for all programs."""
WAITING_MAX: Final = 1000
"""Requests that may wait for a connection."""
CONNECTING_MAX: Final = 2
"""Connections of one client that are made at the same time."""
CONNECT_SECONDS_MAX: Final = 5.0
"""Seconds that a connection may take; the broker accepts it at once, but its disk may hang."""
IDLE_SECONDS_MAX: Final = 240.0
"""Seconds that a connection is kept without a request; the broker closes it after 300."""
REPLY_SECONDS_MAX: Final = 300.0
"""Seconds that the broker may take for the next line of an answer."""
LINE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Longest line of an answer."""
_BUFFER_BYTES: Final = 256 * 1024


class BrokerAway(Exception):  # noqa: N818 - a state of the broker, named as callers think of it
    """The broker does not answer, or ended while it did; the text is one line."""


class BrokerRefused(Exception):  # noqa: N818 - an answer of the broker
    """The broker refused a request, or failed to do it.

    Attributes:
        kind: Word for programs, such as `not_found`.
        reason: A line for people.
        details: Parts of the reason, by name.
    """

    def __init__(self, kind: str, reason: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.details = dict(details or {})


class _NotSentError(ConnectionError):
    """The broker had closed the connection before it could see the request."""


class _Replies(asyncio.StreamReader):
    """What the broker sends, and whether it has closed its side, also while there is more to read.

    Attributes:
        is_ended: Whether the broker has closed its side.
    """

    is_ended = False

    def feed_eof(self) -> None:
        """Note the end."""
        self.is_ended = True
        super().feed_eof()


class _Connection:
    """One connection to the control socket, for one request at a time."""

    def __init__(self, reader: _Replies, writer: asyncio.StreamWriter) -> None:
        self.idle_since_seconds = 0.0
        self._reader = reader
        self._writer = writer

    @property
    def is_fresh(self) -> bool:
        """Whether the broker is still there, as far as is known, and expects a request."""
        is_young = time.monotonic() - self.idle_since_seconds < IDLE_SECONDS_MAX
        return is_young and not self._reader.is_ended and not self._writer.is_closing()

    def close(self) -> None:
        """Close the socket; a request that is under way gets no answer."""
        self._writer.close()

    async def ask(self, request: bytes, on_progress: OnProgress | None) -> Any:  # noqa: ANN401
        """Send a request; return the result.

        Raises:
            OSError: The connection is lost.
            _NotSentError: It was lost before.
            ControlError: The broker refused.
        """
        try:
            self._writer.write(request)
            await self._writer.drain()
        except OSError as error:
            raise _NotSentError(str(error)) from error
        while True:
            async with asyncio.timeout(REPLY_SECONDS_MAX):
                line = await self._next_line()
            progress = decode_progress(line)
            if progress is None:
                return decode_reply(line)
            if on_progress is not None:
                done = on_progress(progress)
                if inspect.isawaitable(done):
                    await done

    async def _next_line(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            try:
                part = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as overrun:
                part = await self._reader.readexactly(overrun.consumed)
            except asyncio.IncompleteReadError:
                raise ConnectionResetError("the broker ended before it answered") from None
            parts.append(part)
            size += len(part)
            if part.endswith(b"\n"):
                return b"".join(parts)
            if size > LINE_BYTES_MAX:
                raise ConnectionAbortedError(f"an answer is longer than {LINE_BYTES_MAX} bytes")


class BrokerClient:
    """Asks the broker of one data directory; requests at the same time use several connections.

    Args:
        storage_path: Data directory of the broker.
        connections_max: Most connections at a time; more requests wait for one.
    """

    def __init__(self, storage_path: Path, connections_max: int = CONNECTIONS_MAX) -> None:
        self._storage_path = storage_path
        self._idle: deque[_Connection] = deque()
        self._workers = ThreadPoolExecutor(CONNECTING_MAX, "control socket")
        self._free = asyncio.Semaphore(connections_max)
        self._waiting_count = 0

    async def call(
        self,
        command: str,
        arguments: Mapping[str, object] | None = None,
        actor: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:  # noqa: ANN401 - the result of any command
        """Run a command in the broker; return its result.

        Args:
            command: Name of the command.
            arguments: Arguments by name.
            actor: Who acts: `user` and `peer`; None for the management server itself.
            on_progress: Takes each progress report.

        Raises:
            BrokerRefused: The broker refused the command, or it failed.
            BrokerAway: The broker does not answer. What the command changes may be done or not.
        """
        request = _encode(command, arguments or {}, actor)
        if self._waiting_count >= WAITING_MAX:
            reason = f"{WAITING_MAX} requests wait for the broker, the limit: try again later"
            raise BrokerRefused(ErrorKind.LIMIT_REACHED, reason)
        self._waiting_count += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting_count -= 1
        try:
            return await self._ask(request, on_progress)
        except ControlError as refusal:
            raise BrokerRefused(refusal.kind, refusal.reason, refusal.details) from None
        except TimeoutError:
            reason = f"the broker did not answer within {REPLY_SECONDS_MAX:.0f} s"
            raise BrokerAway(reason) from None
        except OSError as error:
            self._close_idle()
            raise BrokerAway(f"the broker cannot be asked: {error.strerror or error}") from error
        finally:
            self._free.release()

    async def close(self) -> None:
        """Close all connections that have no request under way."""
        self._close_idle()
        self._workers.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, request: bytes, on_progress: OnProgress | None) -> Any:  # noqa: ANN401
        idle = self._take_idle()
        if idle is not None:
            try:
                return await self._ask_on(idle, request, on_progress)
            except _NotSentError:
                pass
            except ControlError as refusal:
                # Perhaps the broker has closed this connection to make room for others: that is
                # what it said before it saw the request.
                if refusal.kind is not ErrorKind.LIMIT_REACHED:
                    raise
        return await self._ask_on(await self._connect(), request, on_progress)

    async def _ask_on(
        self, connection: _Connection, request: bytes, on_progress: OnProgress | None
    ) -> Any:  # noqa: ANN401 - the result of any command
        is_reusable = False
        try:
            result = await connection.ask(request, on_progress)
            is_reusable = True
        except ControlError as refusal:
            # After these the broker closes the connection.
            is_reusable = refusal.kind not in {ErrorKind.LIMIT_REACHED, ErrorKind.BAD_REQUEST}
            raise
        finally:
            if is_reusable:
                connection.idle_since_seconds = time.monotonic()
                self._idle.append(connection)
            else:
                connection.close()
        return result

    def _take_idle(self) -> _Connection | None:
        """Return the connection that was used last, or None; close those that are too old."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                while self._idle and not self._idle[0].is_fresh:
                    self._idle.popleft().close()
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        """Return a new connection.

        Raises:
            OSError: The broker is not there.
            BrokerAway: Its disk does not answer.
        """
        # In a worker: the socket is on the broker's disk, which may hang. In one of its own: other
        # work must not wait for that disk.
        running = self._workers.submit(_connected, self._storage_path)
        connecting = asyncio.wrap_future(running)
        is_late = True
        try:
            is_late = not (await asyncio.wait({connecting}, timeout=CONNECT_SECONDS_MAX))[0]
        finally:
            if is_late and not running.cancel():
                connecting.add_done_callback(_close_late)
        if is_late:
            # Connections that are there still work.
            raise BrokerAway("the broker cannot be asked: its disk does not answer")
        loop = asyncio.get_running_loop()
        replies = _Replies(limit=_BUFFER_BYTES, loop=loop)
        transport, protocol = await loop.create_unix_connection(
            lambda: asyncio.StreamReaderProtocol(replies, loop=loop), sock=connecting.result()
        )
        return _Connection(replies, asyncio.StreamWriter(transport, protocol, replies, loop))

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _connected(storage_path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(storage_path) as address:
            found.connect(address)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


def _close_late(connecting: asyncio.Future[socket.socket]) -> None:
    """Close a socket that nobody waits for any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


def _encode(
    command: str, arguments: Mapping[str, object], actor: Mapping[str, str] | None
) -> bytes:
    """Return a request as a line.

    Raises:
        BrokerRefused: An argument is no JSON value, or not valid UTF-8.
    """
    fields: dict[str, object] = {"version": VERSION, "command": command, "arguments": arguments}
    if actor is not None:
        fields["actor"] = actor
    try:
        line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        reason = f"an argument cannot be sent: {error}"
        raise BrokerRefused(ErrorKind.INVALID_ARGUMENT, reason) from error
    if len(line) > REQUEST_BYTES_MAX:
        # The broker would end the connection while it is still written to.
        reason = f"a request is longer than {REQUEST_BYTES_MAX} bytes"
        raise BrokerRefused(ErrorKind.INVALID_ARGUMENT, reason)
    return line
