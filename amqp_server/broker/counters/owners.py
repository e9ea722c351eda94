"""What the counters of a pair know of the exchange, the queue and the virtual host they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.broker.counters.delivery_counters import DeliveryCounters
    from amqp_server.broker.counters.delivery_pair import DeliveryPair
    from amqp_server.broker.counters.publish_counters import PublishCounters
    from amqp_server.broker.counters.vhost_counters import VhostCounters
    from amqp_server.broker.queue_settings import QueueSettings


class CountedVhost(Protocol):
    """A virtual host."""

    @property
    def name(self) -> str:
        """Name of the virtual host."""

    @property
    def counters(self) -> VhostCounters:
        """Sums over all its messages."""


class CountedExchange(Protocol):
    """An exchange."""

    @property
    def name(self) -> str:
        """Name of the exchange."""

    @property
    def counters(self) -> PublishCounters:
        """Sums over all that clients have published to it."""

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted."""


class CountedQueue(Protocol):
    """A queue."""

    @property
    def name(self) -> str:
        """Name of the queue."""

    @property
    def settings(self) -> QueueSettings:
        """What the arguments of the queue ask for."""

    @property
    def counters(self) -> DeliveryCounters:
        """Sums over all its deliveries."""

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted."""

    def add_delivery_pair(self, pair: DeliveryPair) -> None:
        """Add the counters of deliveries to one more channel."""

    def remove_delivery_pair(self, pair: DeliveryPair) -> None:
        """Remove the counters of deliveries to a channel; `counters` has what they counted."""

    def mark_changed(self) -> None:
        """Mark the queue as changed: what is shown of it has changed."""
