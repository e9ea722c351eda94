"""Where faults get into a broker: all that its server is started with instead of the real parts.

Also its end by a crash, through these parts: `kill`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amqp_server.testing.faults.faulty_connection import FaultyConnection
from amqp_server.testing.faults.faulty_files import (
    DiskSpace,
    FaultyFileSystem,
    UnsyncedFaultyFileSystem,
)
from amqp_server.testing.faults.faulty_logins import FaultyHandshakeFactory
from amqp_server.testing.faults.faulty_sensor import FaultySensor

if TYPE_CHECKING:
    from amqp_server.connections.server_context import ServerContext
    from amqp_server.start_and_stop import RunningServer
    from amqp_server.testing.faults.faulty_connection import FrameFilter
    from amqp_server.testing.faults.scope import Scope


class FaultPoints:
    """The faults that last, for all runs of one broker: a restart ends none of them.

    Attributes:
        filters: Filters of what clients are sent.
        refusals: What is closed to clients.
        sensor: Reports low resources.
        space: Room on the disk.
        files: File system of the newest run.
    """

    def __init__(self) -> None:
        self.filters: list[FrameFilter] = []
        self.refusals: list[Scope] = []
        self.sensor = FaultySensor()
        self.space = DiskSpace()
        self.files = FaultyFileSystem(self.space)
        self._known: ServerContext | None = None
        self._context: ServerContext | None = None

    def new_files(self, *, synced: bool) -> FaultyFileSystem:
        """Return the file system of the next run.

        Args:
            synced: Whether each sync is real.
        """
        self.files = (FaultyFileSystem if synced else UnsyncedFaultyFileSystem)(self.space)
        return self.files

    def connection(self, context: ServerContext) -> FaultyConnection:
        """Return the connection of a new client."""
        if self._context is None or self._known is not context:
            handshake_factory = FaultyHandshakeFactory(
                context.config, context.handshake_factory.authentication, self.refusals
            )
            self._known, self._context = (
                context,
                replace(context, handshake_factory=handshake_factory),
            )
        return FaultyConnection(self._context, self.filters)


async def kill(running: RunningServer, files: FaultyFileSystem) -> None:
    """End a server as `kill -9` ends its process: reset connections, and change no file.

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
