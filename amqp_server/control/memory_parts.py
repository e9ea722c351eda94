"""Parts of the server's memory, as far as the server counts them.

The names are RabbitMQ's, so that its tools show them. Memory that is not counted, such as the
interpreter's code and memory that was freed and not given back, is the rest, `other_system`: the
parts and the rest are the whole.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from amqp_server.upkeep.resource_sensor import BLOCK_BYTES

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.connections.open_connections import OpenConnections


def memory_parts(used_bytes: int, broker: Broker, connections: OpenConnections) -> dict[str, int]:
    """Return parts of the memory by name, together at most all of it. For a worker thread.

    Args:
        used_bytes: Memory of the process. It was measured a moment before, so a part that has
            grown since is cut to what is left.
        broker: Counts messages.
        connections: Count what comes from clients and goes to them.
    """
    counted = {
        # Messages in the rings of queues, and windows in which logs are read.
        "binary": broker.storage.held_bytes,
        "connection_other": sum(connection.held_bytes for connection in connections),
        # Messages that come in parts, and transactions that are not committed.
        "connection_channels": (
            broker.assembly_budget.held_bytes + broker.transaction_budget.held_bytes
        ),
        # Python's objects, as far as its own allocator has them: queues, indexes, definitions.
        "other_proc": sys.getallocatedblocks() * BLOCK_BYTES,
    }
    left_bytes = used_bytes
    parts = {}
    for name, part_bytes in counted.items():
        parts[name] = min(part_bytes, left_bytes)
        left_bytes -= parts[name]
    return parts
