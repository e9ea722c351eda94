"""Activity of a server: a clock that tests turn sees by it that the server is at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.server import Server


class ServerActivity:
    """The work that a server has begun and that ends without a timer or a client.

    Clients, alarms, imports and requests of commands are left out: they may take any time.

    Args:
        server: Server to look at.
        is_loading: Returns whether messages of a start are still being loaded.
    """

    def __init__(self, server: Server, is_loading: Callable[[], bool]) -> None:
        self._server = server
        self._is_loading = is_loading

    @property
    def steps(self) -> int:
        """Number of turns so far."""
        return self._server.broker.turn.number

    @property
    def work(self) -> str:
        """Work of the server at this moment; empty while it only waits for peers and timers."""
        server = self._server
        kinds = (
            (not server.broker.turn.is_idle, "turns of queues and channels"),
            (not server.flusher.is_idle, "writes of logs"),
            (server.reads.under_way > 0, "reads of logs"),
            (len(server.tasks) > 0, "declares, deletions and transactions"),
            (server.checkpointer.is_writing, "a round of checkpoints"),
            (not server.metadata.is_idle, "writes of definitions"),
            (self._is_loading(), "loading of messages after the start"),
        )
        return ", ".join(name for is_busy, name in kinds if is_busy)

    @property
    def unanswered(self) -> int:
        """Number of deliveries that clients have not answered."""
        return sum(each.unacked_count for each in self._server.connections)

    @property
    def has_heartbeats(self) -> bool:
        """Whether a client has asked for heartbeats."""
        return len(self._server.context.heartbeats) > 0

    def tick_heartbeats(self) -> None:
        """Let half a second pass for the heartbeats of all connections."""
        self._server.context.heartbeats.tick()
