"""The source of deliveries that a queue has taken back from consumers who still have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
    from amqp_server.broker.consuming.source import Delivered
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.storing.message_run import Messages


class TakenBack:
    """Takes the answers to such deliveries, and does nothing with them.

    It is an `amqp_server.broker.consuming.source.Source`.

    Args:
        queue: Queue that has taken the messages back.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    @property
    def consumers(self) -> ConsumerRotation:
        """Consumers of the queue."""
        return self._queue.consumers

    @property
    def ready(self) -> ReadyOrder:
        """Ready messages of the queue."""
        return self._queue.ready

    @property
    def is_deleted(self) -> bool:
        """True: answers have no effect."""
        return True

    def read_run(self, start: int, end: int) -> Messages:
        """Return nothing: nothing is delivered from here."""
        return []

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Delivered:
        """Return the messages unchanged."""
        return self._queue.as_delivered(start, messages, redelivered=redelivered)

    def settle(self, start: int, end: int) -> None:
        """Do nothing: the messages are the queue's again."""

    def drop(self, start: int, end: int, reason: str) -> None:
        """Do nothing: the messages are the queue's again."""

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Do nothing: the messages are the queue's again."""

    def begin_work(self) -> None:
        """Do nothing: the queue delivers on."""

    def end_work(self) -> None:
        """Do nothing: the queue has delivered on."""

    def wake(self) -> None:
        """Dispatch at the end of the turn: there may be more messages, or room for them."""
        self._queue.wake()

    def on_credit_restored(self) -> None:
        """Dispatch at the end of the turn if there is something to: a consumer can take more."""
        self._queue.on_credit_restored()

    def add_consumer(self, consumer: Consumer) -> None:
        """Do nothing: it has no consumers of its own."""

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Return False: it has no consumers of its own."""
        return False
