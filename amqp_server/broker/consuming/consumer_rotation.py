"""Whose turn it is: the consumers of one queue, by priority, and in line among equals."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from amqp_server.broker.consuming.consumer import Consumer


class ConsumerRotation:
    """The consumers of one queue, a line for each priority.

    Whoever was served goes to the end of the line. Where all have one priority, which is the
    plain case, there is one line.
    """

    def __init__(self) -> None:
        # Dicts, for their order and for leaving at once from anywhere.
        self._consumers: dict[Consumer, None] = {}
        self._by_priority: dict[int, dict[Consumer, None]] = {}
        self._ordered: list[dict[Consumer, None]] = []

    def __len__(self) -> int:
        """Return how many consumers there are."""
        return len(self._consumers)

    def __iter__(self) -> Iterator[Consumer]:
        """Iterate over a copy, first come first, so that cancelling while iterating is safe."""
        return iter(tuple(self._consumers))

    @property
    def lines(self) -> Sequence[Collection[Consumer]]:
        """Consumers of equal priority each, the highest priority first."""
        return self._ordered

    @property
    def has_exclusive(self) -> bool:
        """Whether one of them refuses company."""
        return any(consumer.exclusive for consumer in self._consumers)

    def add(self, consumer: Consumer) -> None:
        """Put a new consumer at the end of the line of its priority."""
        self._consumers[consumer] = None
        self._by_priority.setdefault(consumer.priority, {})[consumer] = None
        self._put_in_order()

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer out of its line."""
        del self._consumers[consumer]
        line = self._by_priority[consumer.priority]
        del line[consumer]
        if not line:
            del self._by_priority[consumer.priority]
            self._put_in_order()

    def serve(self, consumer: Consumer) -> None:
        """Move a consumer that was just served to the end of its line."""
        line = self._by_priority[consumer.priority]
        if len(line) > 1:
            del line[consumer]
            line[consumer] = None

    def _put_in_order(self) -> None:
        self._ordered = [line for _, line in sorted(self._by_priority.items(), reverse=True)]
