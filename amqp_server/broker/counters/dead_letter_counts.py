"""How many messages left their queues without an acknowledgement, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.queue_settings import QueueSettings


class DeadLetterCounts:
    """Counters of messages that were rejected, expired or dropped, since the process began.

    As in RabbitMQ they count by the type of the queue and by what becomes of its dead letters:
    `disabled` (it has no dead-letter exchange), `at_most_once`, `at_least_once`.

    Attributes:
        cycles: Dead letters that were not put into a queue which they had come from.
    """

    def __init__(self) -> None:
        self.cycles = 0
        self._counts: dict[tuple[str, str, str], int] = {}

    def count(self, settings: QueueSettings, reason: str, count: int) -> None:
        """Count messages of a queue with these settings; `reason` is a constant of `deaths`."""
        if settings.dead_letter_exchange is None:
            strategy = "disabled"
        else:
            strategy = "at_least_once" if settings.dead_letters_at_least_once else "at_most_once"
        key = settings.type.value, strategy, reason
        self._counts[key] = self._counts.get(key, 0) + count

    def count_cycle(self) -> None:
        """Count a dead letter that was not put into a queue again."""
        self.cycles += 1

    def as_json(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the counters that are not 0 by type of queue, strategy and reason."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for (kind, strategy, reason), count in self._counts.items():
            found.setdefault(kind, {}).setdefault(strategy, {})[reason] = count
        return found
