"""Source from which a consumer takes messages and to which it acks: a queue or subscription.

Also the form in which it gets them: message objects, or a run that encodes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.protocol.large_delivery import Octets


class EncodableRun(Protocol):
    """Consecutive messages that are sent without one object for each."""

    def __len__(self) -> int:
        """Return the number of messages."""

    def encode(
        self, channel: int, consumer_tag: bytes, first_tag: int, redelivered: bool, frame_max: int
    ) -> Octets:
        """Return the octets of the deliveries; see `amqp_server.protocol.framing`."""


Delivered = list[bytes] | EncodableRun
"""Consecutive messages in the form that their consumer gets."""


class Source(Protocol):
    """Messages for some consumers, each once unless it is requeued. Ranges are `[start, end)`."""

    @property
    def consumers(self) -> ConsumerRotation:
        """Consumers that the source serves."""

    @property
    def ready(self) -> ReadyOrder:
        """Messages that may be delivered, and their order."""

    @property
    def is_deleted(self) -> bool:
        """Whether acks, rejects and requeues have no effect any more."""

    def read_run(self, start: int, end: int) -> Messages:
        """Return messages from `start` on that are in memory.

        If there are none, the source reads them from the log and marks its turn later.

        Args:
            start: First offset of `ready.peek()`.
            end: Offset after the last one; within `ready.peek()`.
        """

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Delivered:
        """Return messages with consecutive offsets from `start`, as a consumer gets them."""

    def settle(self, start: int, end: int) -> None:
        """Settle messages that a consumer acknowledged, or took with `no_ack`."""

    def drop(self, start: int, end: int, reason: str) -> None:
        """Settle or dead-letter messages that a consumer rejected; `reason` as in `deaths`."""

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Make messages ready again that consumers returned; ascending, disjoint, not empty."""

    def begin_work(self) -> None:
        """Deliver nothing until `end_work`: messages return in several steps."""

    def end_work(self) -> None:
        """Deliver again: all messages have returned."""

    def wake(self) -> None:
        """Dispatch at the end of the turn: there may be more messages, or room for them."""

    def on_credit_restored(self) -> None:
        """Dispatch at the end of the turn if there is something to: a consumer can take more."""

    def add_consumer(self, consumer: Consumer) -> None:
        """Start to serve a consumer, from the end of this turn on."""

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Stop serving a consumer; return whether its queue should be deleted now."""
