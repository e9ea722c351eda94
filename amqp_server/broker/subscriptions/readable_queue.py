"""A queue, as its readers see it: they have their own places in its log and take nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from uuid import UUID

    from amqp_server.broker.message_states import StateRun
    from amqp_server.broker.queue_part import Namespace
    from amqp_server.broker.storing.message_store import MessageStore
    from offsets.settlement import Settlement


class ReadableQueue(Protocol):
    """A queue whose log is read. Ranges are `[start, end)`."""

    @property
    def name(self) -> str:
        """Name of the queue."""

    @property
    def virtual_host(self) -> Namespace:
        """Virtual host of the queue."""

    @property
    def incarnation(self) -> UUID:
        """Identifier that differs from those of other queues with the same name."""

    @property
    def first_offset(self) -> int:
        """Offset of the oldest message that can be read, or of the first to come."""

    @property
    def store(self) -> MessageStore:
        """Where the messages are."""

    @property
    def settlement(self) -> Settlement:
        """Messages that are done for good."""

    @property
    def is_paused(self) -> bool:
        """Whether an operator has paused its deliveries."""

    @property
    def visible_end(self) -> int:
        """End of the offsets that readers may see (I9, exclusive)."""

    def readable_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the first part of `[start, end)` that readers get; perhaps it is empty."""

    def message_states(self, start: int, end: int) -> list[StateRun]:
        """Return the states of `[start, end)` as ascending runs that cover all of it."""
