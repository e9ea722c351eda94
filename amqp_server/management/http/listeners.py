"""The ports: sockets that the broker has bound, with or without TLS."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from amqp_server.management.settings import ListenerSettings

BACKLOG: Final = 1024
HANDSHAKE_SECONDS_MAX: Final = 10.0


async def serve_listener(
    listener: ListenerSettings,
    make_protocol: Callable[[], asyncio.Protocol],
    context: ssl.SSLContext | None,
) -> asyncio.Server:
    """Accept clients on a socket that the broker has bound.

    Args:
        listener: The socket.
        make_protocol: Returns the protocol of one connection.
        context: What handshakes use, for a socket with TLS.
    """
    bound = socket.socket(fileno=listener.descriptor)
    bound.setblocking(False)
    return await asyncio.get_running_loop().create_server(
        make_protocol,
        sock=bound,
        backlog=BACKLOG,
        ssl=context if listener.is_tls else None,
        ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX if listener.is_tls else None,
    )
