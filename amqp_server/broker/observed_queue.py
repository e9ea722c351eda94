"""A queue, as the rooms see it that show it: commands, and the feed for the management server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.subscriptions.readable_queue import ReadableQueue

if TYPE_CHECKING:
    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
    from amqp_server.broker.counters.consumer_waits import ConsumerWaits
    from amqp_server.broker.counters.delivery_counters import DeliveryCounters
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.policies.effective_policy import EffectivePolicy
    from amqp_server.broker.queue_settings import QueueSettings
    from amqp_server.broker.rules.delivery_counts import DeliveryCounts
    from amqp_server.broker.storing.storage_settings import StorageSettings
    from amqp_server.broker.subscriptions.groups import Groups
    from amqp_server.protocol.tables import Table


class ObservedQueue(ReadableQueue, Protocol):
    """A queue whose state and numbers are read. Reading changes nothing and takes microseconds."""

    @property
    def durable(self) -> bool:
        """Whether its definition survives a restart."""

    @property
    def auto_delete(self) -> bool:
        """Whether it is deleted with its last consumer."""

    @property
    def arguments(self) -> Table:
        """Arguments that a client has declared it with."""

    @property
    def settings(self) -> QueueSettings:
        """What its arguments and its policy mean for messages."""

    @property
    def storage_settings(self) -> StorageSettings:
        """What its arguments and its policy mean for the log."""

    @property
    def policy(self) -> EffectivePolicy:
        """Policies that apply to it."""

    @property
    def exclusive_owner(self) -> Client | None:
        """Client whose connection alone may use it; None for a queue of all."""

    @property
    def is_journaled(self) -> bool:
        """Whether its messages survive a restart."""

    @property
    def is_failed(self) -> bool:
        """Whether its log accepts no more writes."""

    @property
    def consumers(self) -> ConsumerRotation:
        """Its consumers, without those with places of their own."""

    @property
    def consumer_count(self) -> int:
        """Number of all its consumers."""

    @property
    def consumer_waits(self) -> ConsumerWaits:
        """How long messages have been ready while no consumer could take them."""

    @property
    def ready(self) -> ReadyOrder:
        """Messages that may be delivered, and their order."""

    @property
    def ready_count(self) -> int:
        """Messages that can be delivered."""

    @property
    def unacked_count(self) -> int:
        """Messages that consumers have and have not settled."""

    @property
    def leaving_count(self) -> int:
        """Dead letters that no other queue has yet."""

    @property
    def delivered_watermark(self) -> int:
        """Offset after the last message that was ever delivered."""

    @property
    def delivery_counts(self) -> DeliveryCounts | None:
        """How often messages have returned; None if none has."""

    @property
    def groups(self) -> Groups | None:
        """Consumer groups of a stream; None for other queues."""

    @property
    def opened_end(self) -> int:
        """End of the log when the server started, or when the queue was declared."""

    @property
    def opened_settled(self) -> int:
        """Settled messages at that time."""

    @property
    def checkpointed_floor(self) -> int:
        """Ack floor of the last checkpoint on the disk."""

    @property
    def counters(self) -> DeliveryCounters:
        """Deliveries and acks since the server started."""

    @property
    def publish_refused_count(self) -> int:
        """Messages that it was too full for, or that its log refused."""

    @property
    def force_removed_count(self) -> int:
        """Unsettled messages that retention has removed."""

    def fold_deliveries(self) -> None:
        """Add what channels have counted to `counters`."""
