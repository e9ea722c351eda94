"""Counters of a virtual host, or of the whole broker."""

from __future__ import annotations

from amqp_server.broker.counters.delivery_counters import DeliveryCounters
from amqp_server.broker.counters.publish_counters import PublishCounters
from amqp_server.broker.queue_settings import QueueType


class VhostCounters:
    """Counters of all messages of a virtual host since the process began.

    Attributes:
        publishes: Publishes of all clients.
        deliveries: Deliveries by type of queue.
        recv_oct: Octets that clients have sent, as far as `ChangedObjects` has counted them.
        send_oct: Octets that were sent to clients, likewise.
    """

    __slots__ = ("deliveries", "publishes", "recv_oct", "send_oct")

    def __init__(self) -> None:
        self.publishes = PublishCounters()
        self.deliveries = {kind: DeliveryCounters() for kind in QueueType}
        self.recv_oct = self.send_oct = 0

    def add(self, other: VhostCounters) -> None:
        """Add what the counters of another virtual host have counted."""
        self.publishes.add(other.publishes)
        for kind, deliveries in other.deliveries.items():
            self.deliveries[kind].add(deliveries)
        self.recv_oct += other.recv_oct
        self.send_oct += other.send_oct
