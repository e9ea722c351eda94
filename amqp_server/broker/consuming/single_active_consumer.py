"""Single active consumer: a queue serves one of its consumers, and the others wait.

The first consumer is active until it is cancelled. Then the waiting consumer with the highest
priority becomes active; among equals, the oldest. On a classic queue a later consumer waits even if
its priority is higher. On a quorum queue a consumer with a higher priority takes over: the queue
gives the active one no more messages, and when that one has answered all of its deliveries, the
other one is active.

Source: RabbitMQ `rabbit_queue_consumers:get_consumer`, as observed with classic queues of 3.10;
`rabbit_fifo:activate_next_consumer` of 4.2 for quorum queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
from amqp_server.broker.queue_settings import QueueType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.queue_settings import QueueSettings


class SingleActiveConsumer(ConsumerRotation):
    """The consumers of one queue, of which one at a time is served.

    Attributes:
        active: Consumer that is served; None without consumers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.active: Consumer | None = None

    @property
    def levels(self) -> Sequence[Collection[Consumer]]:
        """The active consumer alone."""
        return () if self.active is None else ((self.active,),)

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which becomes active if it is the first."""
        super().add(consumer)
        self._choose()

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; if it was active, another one becomes active."""
        super().remove(consumer)
        if consumer is self.active:
            self.active = None
            self._choose()

    def serve(self, consumer: Consumer) -> None:
        """Keep the order unchanged: waiting consumers stay in their order of arrival."""

    def put_aside(self, consumers: Iterable[Consumer]) -> None:
        """Keep the order unchanged: only the active consumer is looked at."""

    @property
    def _highest(self) -> Consumer:
        """The first come of those with the highest priority."""
        return next(iter(self._ordered[0]))

    def _choose(self) -> None:
        if self.active is None and len(self):
            self.active = self._highest


class HighestActiveConsumer(SingleActiveConsumer):
    """The consumers of one quorum queue, of which the one with the highest priority is served."""

    @property
    def levels(self) -> Sequence[Collection[Consumer]]:
        """The active consumer alone; none while it has deliveries that a higher one waits for."""
        # Asked before each delivery, and the queue is woken by each answer: so this is the moment
        # at which the last delivery of the active consumer is answered.
        if self.active is not None and self._highest.priority > self.active.priority:
            if self.active.unacked:
                return ()
            self.active = self._highest
        return super().levels


def rotation_for(settings: QueueSettings) -> ConsumerRotation:
    """Return a new rotation for the consumers of a queue with these settings."""
    if not settings.single_active_consumer:
        return ConsumerRotation()
    is_quorum = settings.type is QueueType.QUORUM
    return HighestActiveConsumer() if is_quorum else SingleActiveConsumer()
