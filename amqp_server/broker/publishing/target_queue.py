"""A queue, as publishers see it: it takes messages, refuses them, or says when they are safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.broker.counters.owners import CountedExchange
    from amqp_server.broker.publishing.throttled_publishers import Throttled
    from amqp_server.broker.turn import TaskQueue


class ConfirmWaiter(Protocol):
    """Channel, or other sender, that waits until its messages are safe in a queue.

    Attributes:
        task_queue: Task queue in which the queue goes on with what it waits for.
    """

    task_queue: TaskQueue

    @property
    def awaits_confirms(self) -> bool:
        """Whether it still waits for messages to become safe."""

    def release_confirms(self) -> None:
        """Confirm the messages that have become safe."""

    def refuse_confirms(self, queue: TargetQueue) -> None:
        """Refuse the messages that are not safe in a queue whose log has failed."""


class TargetStore(Protocol):
    """The messages of a queue, as publishers see them."""

    @property
    def throttles_publishers(self) -> bool:
        """Whether there is no room, or will soon be none: publishers should wait."""


class TargetQueue(Protocol):
    """A queue that messages are published to. Ranges are `[start, end)`."""

    @property
    def name(self) -> str:
        """Name of the queue."""

    @property
    def store(self) -> TargetStore:
        """Its messages."""

    @property
    def is_deleted(self) -> bool:
        """Whether the queue takes nothing any more."""

    @property
    def is_failed(self) -> bool:
        """Whether the log accepts no more writes; publishes are refused."""

    @property
    def is_stalled(self) -> bool:
        """Whether messages wait for room; more should not be published now."""

    @property
    def confirmed_end(self) -> int:
        """All persistent messages below it may be confirmed (I3, exclusive)."""

    @property
    def refuses_when_full(self) -> bool:
        """Whether `refuses` must be asked for each message."""

    @property
    def waiting_confirms(self) -> set[ConfirmWaiter]:
        """Publishers that are notified of the next answer of the disk, and of the next room."""

    def publish(
        self, messages: list[bytes], flags: int, exchange: CountedExchange | None = None
    ) -> int:
        """Append messages in order, published to an exchange; return the offset after the last."""

    def awaits(self, end_offset: int, flags: int) -> bool:
        """Return whether messages with these flags, below `end_offset`, are not safe yet."""

    def refuses(self, message: bytes, flags: int) -> bool:
        """Return whether the queue is too full for a message."""

    def count_and_log_refused(self, count: int) -> None:
        """Count messages that the queue refused because its log has failed, and log it."""

    def count_incoming(self, count: int, exchange: CountedExchange | None) -> None:
        """Count messages that were routed to the queue and that `publish` has not counted."""

    def throttle(self, client: Throttled) -> None:
        """Stop reading from a publisher until the store has room."""

    def withdraw(self, start: int, end: int) -> None:
        """Settle refused messages that no consumer has; their publisher repeats them."""
