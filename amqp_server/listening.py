"""The address of the server: bound before the start, opened when recovery is complete."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Final, cast

from amqp_server.errors import StartupError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from amqp_server.config import ServerConfig

BACKLOG: Final = 1024
"""Connections that the kernel queues until the event loop accepts them."""


async def bind(
    config: ServerConfig, make_protocol: Callable[[], asyncio.BaseProtocol]
) -> asyncio.Server:
    """Bind the address without listening: the system refuses connections until `listen`.

    Raises:
        StartupError: Another process listens there, or this machine does not have the address.
    """
    try:
        return await asyncio.get_running_loop().create_server(
            make_protocol, config.host, config.port, backlog=BACKLOG, start_serving=False
        )
    except OSError as error:
        raise _refused(config, error) from error


async def listen(config: ServerConfig, listener: asyncio.Server) -> tuple[str, int]:
    """Accept connections from now on; return host and port.

    Raises:
        StartupError: Another process that had bound the same address began to listen earlier.
    """
    try:
        await listener.start_serving()
    except OSError as error:
        raise _refused(config, error) from error
    # uvloop reports no error when the kernel refuses: the listener has no socket then.
    sockets = [each for each in cast("tuple[socket.socket | None, ...]", listener.sockets) if each]
    if not sockets:
        raise _refused(config, OSError(errno.EADDRINUSE, ""))
    host, port = sockets[0].getsockname()[:2]
    return host, port


def _refused(config: ServerConfig, error: OSError) -> StartupError:
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    return StartupError(f"cannot listen on {config.host}:{config.port}: {reason}")
