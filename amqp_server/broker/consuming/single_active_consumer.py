"""Single active consumer: of all consumers of a queue one is served, the others wait.

The first to come is active until it goes. Then the waiting one with the highest priority
follows it, the first come among equals; whoever comes later, even with a higher priority, waits.

Source: RabbitMQ `rabbit_queue_consumers:get_consumer`, as 3.10 was seen to do for classic queues;
its quorum queues leave priorities out of it.
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
        active: The one that is served; None without consumers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.active: Consumer | None = None

    @property
    def lines(self) -> Sequence[Collection[Consumer]]:
        """The active consumer alone."""
        return () if self.active is None else ((self.active,),)

    def add(self, consumer: Consumer) -> None:
        """Let a new consumer wait, or be active if it is the first."""
        super().add(consumer)
        self._choose()

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer out; another one follows it if it was active."""
        super().remove(consumer)
        if consumer is self.active:
            self.active = None
            self._choose()

    def serve(self, consumer: Consumer) -> None:
        """Leave the order as it is: those that wait keep the order in which they came."""

    def _choose(self) -> None:
        if self.active is None and len(self):
            self.active = next(iter(super().lines[0]))


def rotation_for(settings: QueueSettings) -> ConsumerRotation:
    """Return what serves the consumers of a queue with these settings."""
    return SingleActiveConsumer() if settings.single_active_consumer else ConsumerRotation()
