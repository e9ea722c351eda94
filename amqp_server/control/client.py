"""Sends commands to the server that runs on a data directory. Blocks."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from amqp_server.control.protocol import (
    ControlError,
    Request,
    RequestActor,
    decode_progress,
    decode_reply,
    encode_request,
)
from amqp_server.control.socket_path import SOCKET_NAME, socket_address

REPLY_SECONDS_MAX: Final = 300.0
"""Seconds that a reply may take: deleting a virtual host with many queues is slow."""
_NOBODY_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED)


class UnreachableError(Exception):
    """No server runs there, or the user may not connect to it; the text is one line."""


def ask(storage_path: Path, command: str, **arguments: object) -> Any:  # noqa: ANN401 - its result
    """Run a command in the server of a data directory.

    Args:
        storage_path: The server's data directory.
        command: Name of the command.
        arguments: Arguments of the command, by name.

    Returns:
        Result of the command.

    Raises:
        UnreachableError: No server runs there, it is another user's, or it ended.
        ControlError: The server refused the command, or it failed.
    """
    return follow(storage_path, command, arguments, _no_progress)


def follow(
    storage_path: Path,
    command: str,
    arguments: dict[str, Any],
    on_progress: Callable[[dict[str, Any]], None],
    actor: RequestActor | None = None,
) -> Any:  # noqa: ANN401 - its result
    """Run a long command and report its progress; otherwise as `ask`.

    Args:
        storage_path: The server's data directory.
        command: Name of the command.
        arguments: Arguments of the command, by name.
        on_progress: Called with each progress report before the reply. An exception that it raises
            closes the connection, which stops the command.
        actor: User of the server for whom the request is made; None: the user of this process.
    """
    request = encode_request(Request(command, arguments, actor))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REPLY_SECONDS_MAX)
        try:
            with socket_address(storage_path) as address:
                connection.connect(address)
            connection.sendall(request)
        except OSError as error:
            raise UnreachableError(_explain(storage_path, error)) from error
        with connection.makefile("rb") as replies:
            while True:
                line = _next_line(storage_path, replies)
                progress = decode_progress(line)
                if progress is None:
                    return decode_reply(line)
                on_progress(progress)


def _next_line(storage_path: Path, replies: BinaryIO) -> bytes:
    try:
        line = replies.readline()
    except OSError as error:
        raise UnreachableError(_explain(storage_path, error)) from error
    if not line.endswith(b"\n"):
        raise UnreachableError(f"the server on {storage_path} ended before it answered")
    return line


def _no_progress(_progress: dict[str, Any]) -> None:
    """Ignore the progress of a command."""


def _explain(storage_path: Path, error: OSError) -> str:
    if error.errno in _NOBODY_THERE:
        return f"no server is running on the data directory {storage_path}"
    path = storage_path / SOCKET_NAME
    if isinstance(error, PermissionError):
        return f"{path}: permission denied: only the user that runs the server may use it"
    if isinstance(error, TimeoutError):
        return f"the server on {storage_path} did not answer within {REPLY_SECONDS_MAX:.0f} s"
    return f"{path}: {error.strerror or error}"


__all__ = ["ControlError", "UnreachableError", "ask", "follow"]
