"""View of a virtual host: its queues, the owners of their messages, and its connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqp_server.control.queues import traffic_stats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.broker.queue import Queue
    from amqp_server.connections.open_connections import Connection
    from amqp_server.server import Server

DELETED: Final = "a deleted queue"
"""Shown instead of the name of a queue that is gone."""


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The counts of one queue.

    Attributes:
        name: Name of the queue.
        ready: Messages that wait for a consumer.
        unacked: Messages that consumers have.
        published: Messages that came in since the start of the broker.
        consumers: Consumers of the queue.
    """

    name: str
    ready: int
    unacked: int
    published: int
    consumers: int

    @classmethod
    def of(cls, queue: Queue) -> QueueCounts:
        """Count a queue."""
        published = traffic_stats(queue)["appended"]
        return cls(
            queue.name, queue.ready_count, queue.unacked_count, published, queue.consumer_count
        )

    def __str__(self) -> str:
        """Return the counts in words."""
        return (
            f"{self.ready} ready, {self.unacked} unacked, {self.published} published, "
            f"consumers: {self.consumers}"
        )


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """One connection of a client.

    Attributes:
        name: Addresses of both ends, and the client's name for it.
        channels: Open channels.
        unacked: Unacked deliveries by queue.
    """

    name: str
    channels: int
    unacked: dict[str, int]

    @classmethod
    def of(cls, connection: Connection, names: Mapping[int, str]) -> ConnectionCounts:
        """Count what a connection has.

        Args:
            connection: The connection.
            names: Names of the queues of its virtual host, by `id`.
        """
        unacked: dict[str, int] = {}
        for channel in connection.channels:
            for run in channel.unacked:
                queue = run.source if run.consumer is None else run.consumer.queue
                name = names.get(id(queue), DELETED)
                unacked[name] = unacked.get(name, 0) + run.count
        client = f" '{connection.client_name}'" if connection.client_name else ""
        return cls(f"{connection.name}{client}", len(connection.channels), unacked)

    def __str__(self) -> str:
        """Return what it has in words."""
        has = [f"open channels: {self.channels}"]
        has += [f"{count} unacked of '{name}'" for name, count in sorted(self.unacked.items())]
        return f"{self.name}: {', '.join(has)}"


@dataclass(frozen=True, slots=True)
class BrokerView:
    """State of a virtual host at one moment.

    Attributes:
        vhost: Name of the virtual host.
        queues: Counts of its queues, by name.
        connections: Its connections.
    """

    vhost: str
    queues: tuple[QueueCounts, ...]
    connections: tuple[ConnectionCounts, ...]

    @classmethod
    def of(cls, server: Server, vhost: str) -> BrokerView:
        """Look at a virtual host; empty if there is none. Call it on the broker's loop."""
        host = server.broker.vhosts.get(vhost)
        queues = {} if host is None else host.queues
        names = {id(queue): name for name, queue in queues.items()}
        return cls(
            vhost,
            tuple(QueueCounts.of(queues[name]) for name in sorted(queues)),
            tuple(
                ConnectionCounts.of(each, names)
                for each in server.connections
                if each.vhost == vhost
            ),
        )

    @property
    def leaks(self) -> list[str]:
        """Connections that a test should have closed: with open channels or unacked messages."""
        return [str(each) for each in self.connections if each.channels or each.unacked]

    def __str__(self) -> str:
        """Return a report of a few lines."""
        lines = [f"queues of virtual host '{self.vhost}':"]
        lines += [f"  {each.name}: {each}" for each in self.queues] or ["  none"]
        lines += ["connections:"]
        lines += [f"  {each}" for each in self.connections] or ["  none"]
        return "\n".join(lines)
