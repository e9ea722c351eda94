"""The command `status`: what is running, since when, and how much there is in it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from amqp_server import __version__
from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from amqp_server.server import Server


async def status(server: Server) -> dict[str, object]:
    """Tell what is running and count what is in it."""
    queues = list(server.broker.queues())
    host, port = server.address
    return {
        "product": "amqp-server",
        "version": __version__,
        "pid": os.getpid(),
        "uptime_seconds": round(time.monotonic() - server.started_seconds, 3),
        "host": host,
        "port": port,
        "vhosts": len(server.broker.vhosts),
        "connections": len(server.connections),
        "channels": sum(connection.channel_count for connection in server.connections),
        "queues": len(queues),
        "messages_ready": sum(len(queue.ready) for queue in queues),
    }


STATUS = Command("status", status)
