"""What a consumer takes from, and what its answers go to: a queue, or a subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
    from amqp_server.broker.consuming.delivered import Delivered
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.storing.message_run import Messages
    from offsets.delivery_counters import DeliveryCounters


class Source(Protocol):
    """Messages for some consumers, each once unless it comes back. Ranges are `[start, end)`."""

    @property
    def consumers(self) -> ConsumerRotation:
        """Those that it serves."""

    @property
    def ready(self) -> ReadyOrder:
        """What they may be given, and which goes next."""

    @property
    def counters(self) -> DeliveryCounters:
        """Where deliveries, and acks to them, are counted."""

    @property
    def is_deleted(self) -> bool:
        """Whether answers to deliveries change nothing any more."""

    def read_run(self, start: int, end: int) -> Messages:
        """Return messages from `start` on that are at hand; none: the source asks for a turn later.

        Args:
            start: First offset of `ready.peek()`.
            end: Exclusive; within it.
        """

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Delivered:
        """Return messages, from offset `start` on without gaps, as a consumer gets them."""

    def settle(self, start: int, end: int) -> None:
        """Be done with what a consumer acknowledged, or took without acknowledging."""

    def drop(self, start: int, end: int, reason: str) -> None:
        """Be done with what a consumer does not want; `reason` in the words of `dead_letter`."""

    def requeue(self, start: int, end: int) -> None:
        """Take back what a consumer had."""

    def wake(self) -> None:
        """Dispatch at the end of the turn: a consumer can take more."""

    def add_consumer(self, consumer: Consumer) -> None:
        """Begin to serve a consumer at the end of the turn."""

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Stop serving a consumer; return whether its queue should be deleted now."""
