"""How long the ready messages of a queue have waited for its consumers."""

from __future__ import annotations

from time import monotonic


class ConsumerWaits:
    """Adds up the time in which no consumer of a queue could take a ready message.

    The rest of the time is the utilisation of its consumers, as RabbitMQ calls it: at 1 more
    prefetch, or more consumers, would make nothing faster.

    Attributes:
        since_seconds: Since when messages wait, by `time.monotonic`; 0 while none does.
    """

    __slots__ = ("_waited_seconds", "since_seconds")

    def __init__(self) -> None:
        self.since_seconds = 0.0
        self._waited_seconds = 0.0

    def begin(self) -> None:
        """Note that messages wait: the consumers were asked just now, perhaps not only now."""
        now_seconds = monotonic()
        if self.since_seconds:
            self._waited_seconds += now_seconds - self.since_seconds
        self.since_seconds = now_seconds

    def end(self) -> None:
        """Note that messages have waited, and do so no more."""
        self._waited_seconds += monotonic() - self.since_seconds
        self.since_seconds = 0.0

    @property
    def seconds(self) -> float:
        """Time that messages have waited, so far."""
        if not self.since_seconds:
            return self._waited_seconds
        return self._waited_seconds + monotonic() - self.since_seconds
