"""Asks the running server of a data directory; blocking, for commands."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from amqp_server.control.messages import (
    ControlError,
    Request,
    decode_progress,
    decode_reply,
    encode_request,
)
from amqp_server.control.socket_path import SOCKET_NAME, socket_address

REPLY_SECONDS_MAX: Final = 300.0
"""How long a reply may take: a virtual host with very many queues is deleted queue by queue."""
_NOBODY_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED)


class UnreachableError(Exception):
    """There is no server to ask, or not for this user; the text is one line."""


def ask(storage_path: Path, command: str, **arguments: object) -> Any:  # noqa: ANN401 - its result
    """Have a command done by the server that runs on a data directory.

    Args:
        storage_path: The server's data directory.
        command: Name of a command.
        arguments: Its arguments.

    Returns:
        What the command returns.

    Raises:
        UnreachableError: No server runs there, it is another user's, or it went away.
        ControlError: The server did not do it.
    """
    return follow(storage_path, command, arguments, _no_progress)


def follow(
    storage_path: Path,
    command: str,
    arguments: dict[str, Any],
    on_progress: Callable[[dict[str, Any]], None],
) -> Any:  # noqa: ANN401 - its result
    """Have a long command done, and hear how far it is; otherwise as `ask`.

    Args:
        storage_path: The server's data directory.
        command: Name of a command.
        arguments: Its arguments.
        on_progress: Called with each thing that is told before the reply. What it raises ends
            the connection, and so the command.
    """
    request = encode_request(Request(command, arguments))
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
    """Take no notice of how far it is."""


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
