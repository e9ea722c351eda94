"""Parts of a server that its connections share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.rights import AccessRules
    from amqp_server.broker.turn_watch import TurnWatch
    from amqp_server.connections.connection_limits import ConnectionLimits
    from amqp_server.connections.handshake_factory import HandshakeFactory
    from amqp_server.connections.heartbeats import HeartbeatWheel
    from amqp_server.connections.large_writes import LargeWrites
    from amqp_server.connections.open_connections import Connection, Lingering, OpenConnections
    from amqp_server.connections.parked_publishes import ParkedBudget
    from amqp_server.upkeep.alarms import Alarms


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts of one server that its connections share.

    Attributes:
        config: Settings and limits.
        broker: Broker whose queues the clients use.
        connections: The open connections; each registers itself.
        access: Permissions of the users.
        connection_limits: Counts connections and channels, and refuses one too many.
        handshake_factory: Makes the AMQP handshake of each connection.
        alarms: Alarms, while which publishes are parked.
        parked_budget: Bytes that all parked publishes may hold.
        large_writes: Shares the loop among the connections that send large messages.
        heartbeats: Sends heartbeats and watches silent peers.
        lingering: Closed connections that wait for their peers.
        watch: Measures how long each piece of work takes.
        read_buffer: Buffer into which all sockets are read, one at a time.
        read_view: View of the whole `read_buffer`.
        first_view: View of what one read may fill, of a client of which nothing is left over.
    """

    config: ServerConfig
    broker: Broker
    connections: OpenConnections
    access: AccessRules
    connection_limits: ConnectionLimits
    handshake_factory: HandshakeFactory
    alarms: Alarms
    parked_budget: ParkedBudget
    large_writes: LargeWrites
    heartbeats: HeartbeatWheel
    lingering: Lingering
    watch: TurnWatch
    read_buffer: bytearray
    read_view: memoryview
    first_view: memoryview

    def read_on_later(self, connection: Connection) -> None:
        """Resume reading a client after the turn that handles what it has sent so far.

        Args:
            connection: Connection whose last read filled the buffer; it does not read now.
        """
        asyncio.get_running_loop().call_soon(connection.read_on)
