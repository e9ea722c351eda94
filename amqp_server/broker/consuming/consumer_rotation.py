"""Decides which consumer of a queue is served next: by priority, then in turn.

Tens of thousands of consumers may have all the messages that they can take, or be about to leave.
Those stand aside, so that nobody looks at them for each message. A consumer comes back, at the end
of its level, when it answers a message or gets another limit.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from amqp_server.broker.consuming.consumer import Consumer


class ConsumerRotation:
    """The consumers of one queue, in one level for each priority.

    A consumer moves to the end of its level when it is served. Usually all consumers have the
    same priority, and there is one level.

    Attributes:
        count: Number of consumers.
    """

    def __init__(self) -> None:
        self.count = 0
        # Dicts keep the order and remove a consumer from any position at once.
        self._consumers: dict[Consumer, None] = {}
        self._by_priority: dict[int, dict[Consumer, None]] = {}
        # Both lists have one entry for each level; priorities are negated, so they ascend.
        self._negated: list[int] = []
        self._ordered: list[dict[Consumer, None]] = []
        self._exclusive_count = 0

    def __len__(self) -> int:
        """Return the number of consumers."""
        return self.count

    def __iter__(self) -> Iterator[Consumer]:
        """Iterate over a copy, oldest first, so that the loop may cancel consumers."""
        return iter(tuple(self._consumers))

    @property
    def first(self) -> Consumer:
        """The oldest consumer; there must be one."""
        return next(iter(self._consumers))

    @property
    def levels(self) -> Sequence[Collection[Consumer]]:
        """Consumers in groups of equal priority, the highest first, without those aside."""
        return self._ordered

    @property
    def has_exclusive(self) -> bool:
        """Whether one of the consumers is exclusive."""
        return self._exclusive_count > 0

    def add(self, consumer: Consumer) -> None:
        """Add a new consumer at the end of the level of its priority. O(log levels)."""
        self._consumers[consumer] = None
        self.count += 1
        self._exclusive_count += consumer.exclusive
        self._enter(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer from its level. O(log levels)."""
        del self._consumers[consumer]
        self.count -= 1
        self._exclusive_count -= consumer.exclusive
        if consumer.aside_of is None:
            self._leave(consumer)
        consumer.aside_of = None

    def put_aside(self, consumers: Iterable[Consumer]) -> None:
        """Take consumers out of their levels, until they are taken back, if ever.

        Args:
            consumers: Each has as many messages as its own limit allows, or its channel is closed.
        """
        for consumer in consumers:
            self._leave(consumer)
            consumer.aside_of = self

    def take_back(self, consumer: Consumer) -> None:
        """Put a consumer that stood aside at the end of its level, to be looked at again."""
        consumer.aside_of = None
        self._enter(consumer)

    def serve(self, consumer: Consumer) -> None:
        """Move a consumer that was just served to the end of its level."""
        level = self._by_priority[consumer.priority]
        if len(level) > 1:
            del level[consumer]
            level[consumer] = None

    def _enter(self, consumer: Consumer) -> None:
        level = self._by_priority.get(consumer.priority)
        if level is None:
            level = self._by_priority[consumer.priority] = {}
            at = bisect_left(self._negated, -consumer.priority)
            self._negated.insert(at, -consumer.priority)
            self._ordered.insert(at, level)
        level[consumer] = None

    def _leave(self, consumer: Consumer) -> None:
        level = self._by_priority[consumer.priority]
        del level[consumer]
        if not level:
            del self._by_priority[consumer.priority]
            at = bisect_left(self._negated, -consumer.priority)
            del self._negated[at], self._ordered[at]
