"""Ends a server as `kill -9` ends its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.testing.faults.faulty_connection import FaultyConnection

if TYPE_CHECKING:
    from amqp_server.start_and_stop import RunningServer
    from amqp_server.testing.faults.faulty_files import FaultyFileSystem


async def kill(running: RunningServer, files: FaultyFileSystem) -> None:
    """Reset all connections, and release everything without a change of the files.

    A write that a thread has begun may be done or not, as after a real one.

    Args:
        running: The server.
        files: Its file system, which refuses every change from now on.
    """
    files.is_killed = True
    for connection in running.server.connections:
        if isinstance(connection, FaultyConnection):
            connection.reset()
    await running.abandon()
