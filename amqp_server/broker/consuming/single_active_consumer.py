"""Single active consumer: a queue serves one of its consumers, and the others wait.

The first consumer is active until it is cancelled. Then the waiting consumer with the highest
priority becomes active; among equals, the oldest. A later consumer waits even if its priority is
higher.

Source: RabbitMQ `rabbit_queue_consumers:get_consumer`, as observed with classic queues of 3.10;
its quorum queues ignore priorities here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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
    def lines(self) -> Sequence[Collection[Consumer]]:
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

    def _choose(self) -> None:
        if self.active is None and len(self):
            self.active = next(iter(super().lines[0]))


def rotation_for(settings: QueueSettings) -> ConsumerRotation:
    """Return a new rotation for the consumers of a queue with these settings."""
    return SingleActiveConsumer() if settings.single_active_consumer else ConsumerRotation()
