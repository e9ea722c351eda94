"""Acknowledges at once what a client has sent of a message in pieces.

A client without TCP_NODELAY (Node.js, unless it is told otherwise) that writes a message in two
pieces sends the second one when the first is acknowledged. The kernel would delay that by 40 ms: it
hopes to send it along with an answer, which cannot come before the second piece has.

Source: RFC 896 (Nagle's algorithm); RFC 9293, section 3.8.6.3; tcp(7), TCP_QUICKACK.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)


def acknowledge_now(transport: asyncio.BaseTransport) -> None:
    """Let the kernel acknowledge what it has received; nothing happens where it cannot be asked.

    Two microseconds, so it is for reads after which the client may wait.

    Args:
        transport: Transport of an open connection, over TCP.
    """
    found = transport.get_extra_info("socket")
    if _QUICK_ACK is None or found is None or transport.is_closing():
        return
    # The transport's own object would duplicate its descriptor for each option: 20 us.
    borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, found.fileno())
    try:
        # It fails if it is no socket of TCP.
        with suppress(OSError):
            borrowed.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
    finally:
        borrowed.detach()
