"""The server's end of the control socket: accepts connections and answers requests."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amqp_server.audit.actor import Actor, acting
from amqp_server.control.audited_requests import AuditedRequests, peer_of
from amqp_server.control.protocol import (
    LINE_BYTES_MAX,
    ClientGoneError,
    ControlError,
    ErrorKind,
    decode_request,
    encode_error,
    encode_progress,
    encode_result,
)
from amqp_server.control.registry import run_request
from amqp_server.control.requesting_user import requesting_login, requesting_user
from amqp_server.control.socket_path import SOCKET_NAME, socket_address

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping

    from amqp_server.audit.audit_log import AuditLog
    from amqp_server.control.protocol import RequestActor
    from amqp_server.control.registry import Command, ReportProgress

logger = logging.getLogger("amqp_server.control.listener")

UNREAD_SECONDS_MAX: Final = 60.0
"""Seconds that a client may leave a progress report or a reply unread; then it is cut off.

Octets in the kernel and in the transport's buffer of 64 KiB count as read.
"""
CONNECTIONS_MAX: Final = 32
"""Control connections that may be open at the same time.

One more replaces the connection that has been idle longest. If all of them have a running request,
the server refuses it.
"""
FOLLOWERS_MAX: Final = 16
"""Control connections that may follow something at the same time, beside the others."""
IDLE_SECONDS_MAX: Final = 300.0
"""Seconds that a control connection may stay open without a request."""


class ControlListener:
    """Answers requests on the control socket of one server, in order for each connection.

    Args:
        storage_path: The data directory, which the server has locked; the socket lies in it.
        commands: Commands by name.
        audit: Records the requests that change something, and who made them.
    """

    def __init__(
        self, storage_path: Path, commands: Mapping[str, Command], audit: AuditLog
    ) -> None:
        """Store the commands; `start` opens the socket."""
        self._audit = audit
        self._storage_path = storage_path
        self._commands = commands
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: set[asyncio.Task[None]] = set()
        # Connections without a running request, the one that is idle longest first.
        self._idle: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> None:
        """Listen. If the socket cannot be created, the server runs without it."""
        try:
            self._listener = await asyncio.start_unix_server(
                self._accept, sock=_bind(self._storage_path), limit=LINE_BYTES_MAX
            )
        except OSError as error:
            # Some file systems, such as those shared with a container's host, support no sockets.
            logger.warning(
                "no control socket path=%s reason=%s",
                self._storage_path / SOCKET_NAME,
                error.strerror or error,
            )

    async def stop(self) -> None:
        """Close every connection and remove the socket; running requests get no reply."""
        if self._listener is None:
            return
        self._listener.close()
        try:
            (self._storage_path / SOCKET_NAME).unlink(missing_ok=True)
        except OSError as error:
            # A disk that has become read-only must not prevent the rest of the stop.
            logger.warning("control socket not removed reason=%s", error)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        others = len(self._tasks) - len(self._following)
        if others >= CONNECTIONS_MAX and not self._end_an_idle_one():
            reason = f"{CONNECTIONS_MAX} control requests are running, the limit: try again later"
            writer.write(encode_error(ControlError(ErrorKind.LIMIT_REACHED, reason)))
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="control")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end_an_idle_one(self) -> bool:
        """Close the connection that has been idle longest; return whether there is one."""
        for task, writer in self._idle.items():
            reason = "this connection was idle, and another client needed its place"
            writer.write(encode_error(ControlError(ErrorKind.LIMIT_REACHED, reason)))
            del self._idle[task]
            self._tasks.discard(task)
            task.cancel()
            return True
        return False

    async def _next_line(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Return the next request; empty if the client has closed the connection.

        Raises:
            ControlError: The request is too long, or none arrived in time.
        """
        task = asyncio.current_task()
        assert task is not None, "a control connection is served by a task"
        self._idle[task] = writer
        try:
            async with asyncio.timeout(IDLE_SECONDS_MAX):
                return await _read_line(reader)
        except TimeoutError:
            reason = f"no request came for {IDLE_SECONDS_MAX:.0f} s"
            raise ControlError(ErrorKind.LIMIT_REACHED, reason) from None
        finally:
            self._idle.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # Looking up the name may ask a server of the network. What this task starts inherits
            # the actor.
            acting.set(await asyncio.to_thread(peer_of, writer.get_extra_info("socket")))
            requests = AuditedRequests(self._audit)
            while line := await self._next_line(reader, writer):
                await _write(
                    writer, await self._answer(line, reader, partial(_report, writer), requests)
                )
        except ControlError as error:
            if not writer.is_closing():
                writer.write(encode_error(error))
        except OSError as error:
            logger.info("control connection lost reason=%s", error)
            # Octets that it has not read must not stay.
            writer.transport.abort()
        finally:
            _close(writer)

    async def _answer(
        self,
        line: bytes,
        reader: asyncio.StreamReader,
        report: ReportProgress,
        requests: AuditedRequests,
    ) -> bytes:
        try:
            request = decode_request(line)
            running = run_request(self._commands, request, report, requests.record)
            command = self._commands.get(request.command)
            with _acting_for(request.actor):
                if command is not None and command.follows:
                    result = encode_result(await self._follow(running, reader))
                else:
                    result = encode_result(await running)
        except ControlError as error:
            return encode_error(error)
        except ClientGoneError:
            raise
        except Exception:
            logger.exception("control request failed")
            return encode_error(
                ControlError(ErrorKind.FAILED, "internal error, see the server's log")
            )
        return result

    async def _follow(
        self, running: Coroutine[None, None, object], reader: asyncio.StreamReader
    ) -> object:
        """Run a command that follows, until its client sends a line or has gone.

        Raises:
            ControlError: As many connections as may be follow something already.
        """
        task = asyncio.current_task()
        assert task is not None, "a control connection is served by a task"
        if len(self._following) >= FOLLOWERS_MAX:
            running.close()
            reason = f"{FOLLOWERS_MAX} control connections follow something, the limit"
            raise ControlError(ErrorKind.LIMIT_REACHED, reason)
        self._following.add(task)
        work = asyncio.ensure_future(running)
        end = asyncio.ensure_future(_read_line(reader))
        try:
            await asyncio.wait((work, end), return_when=asyncio.FIRST_COMPLETED)
            return await work if work.done() else None
        finally:
            for each in (work, end):
                each.cancel()
            await asyncio.gather(work, end, return_exceptions=True)
            self._following.discard(task)


@contextmanager
def _acting_for(actor: RequestActor | None) -> Iterator[None]:
    """Let the block act for a user of the server; for None, for the connected user."""
    if actor is None:
        yield
        return
    shown = acting.set(Actor(actor.user, actor.peer))
    asking = requesting_user.set(actor.user)
    login = requesting_login.set(actor.login)
    try:
        yield
    finally:
        requesting_login.reset(login)
        requesting_user.reset(asking)
        acting.reset(shown)


async def _report(writer: asyncio.StreamWriter, progress: Mapping[str, object]) -> None:
    """Send a client the progress of its request.

    Raises:
        ClientGoneError: The client has gone, or does not read.
    """
    await _write(writer, encode_progress(progress))
    # A client that reads fast is never waited for: without this the loop would do all that is left
    # of a long request in one go.
    await asyncio.sleep(0)


async def _write(writer: asyncio.StreamWriter, line: bytes) -> None:
    """Send a client a line, and return when it has read enough for the next one.

    Raises:
        ClientGoneError: The client has gone, or does not read.
    """
    if writer.is_closing():
        raise ClientGoneError("the client has gone")
    writer.write(line)
    try:
        async with asyncio.timeout(UNREAD_SECONDS_MAX):
            await writer.drain()
    except TimeoutError as error:
        reason = f"the client has read nothing for {UNREAD_SECONDS_MAX:.0f} s"
        raise ClientGoneError(reason) from error
    except OSError as error:
        raise ClientGoneError(str(error)) from error


def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection; a client that does not read the rest of its reply is cut off."""
    writer.close()
    if writer.transport.get_write_buffer_size():
        asyncio.get_running_loop().call_later(UNREAD_SECONDS_MAX, writer.transport.abort)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next request; empty if the client has closed, even within a line.

    Raises:
        ControlError: The request is too long.
    """
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError:
        return b""
    except asyncio.LimitOverrunError:
        reason = f"a request is longer than {LINE_BYTES_MAX} bytes"
        raise ControlError(ErrorKind.BAD_REQUEST, reason) from None


def _bind(storage_path: Path) -> socket.socket:
    """Return a bound socket to which only this user could connect at any moment."""
    # The data directory is locked, so a socket in it belongs to a dead server.
    (storage_path / SOCKET_NAME).unlink(missing_ok=True)
    control = socket.socket(socket.AF_UNIX)
    try:
        with socket_address(storage_path) as address:
            # The umask is narrower for a moment, never wider: other threads may create files now.
            umask = os.umask(0o177)
            try:
                control.bind(address)
            finally:
                os.umask(umask)
        control.setblocking(False)
    except OSError:
        control.close()
        raise
    return control
