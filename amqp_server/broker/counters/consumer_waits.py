"""How long the ready messages of a queue have waited for its consumers."""

from __future__ import annotations

from time import monotonic


class ConsumerWaits:
    """Adds up the time in which no consumer of a queue could take a ready message.

    The rest of the time is the utilisation of its consumers, as RabbitMQ calls it: at 1 more
    prefetch, or more consumers, would make nothing faster.
    """

    __slots__ = ("_since_seconds", "_waited_seconds")

    def __init__(self) -> None:
        self._since_seconds = 0.0
        self._waited_seconds = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether messages wait now."""
        return self._since_seconds > 0

    def note(self, *, is_waiting: bool) -> None:
        """Note whether messages wait from now on; the consumers were asked just now."""
        if self._since_seconds:
            now_seconds = monotonic()
            self._waited_seconds += now_seconds - self._since_seconds
            self._since_seconds = now_seconds if is_waiting else 0.0
        elif is_waiting:
            self._since_seconds = monotonic()

    @property
    def seconds(self) -> float:
        """Time that messages have waited, so far."""
        if not self._since_seconds:
            return self._waited_seconds
        return self._waited_seconds + monotonic() - self._since_seconds
