"""Deliveries of a channel that wait for room in a queue of the firehose."""

from __future__ import annotations

from typing import Protocol


class PausableChannel(Protocol):
    """A channel whose deliveries may wait."""

    def pause_deliveries(self) -> None:
        """Deliver nothing until `resume_deliveries`."""

    def resume_deliveries(self) -> None:
        """Deliver again."""


class PausedDeliveries:
    """Lets a channel deliver nothing while a queue throttles it, as publishers are not read.

    Args:
        channel: Channel that delivers.
    """

    def __init__(self, channel: PausableChannel) -> None:
        self._channel = channel
        self._reasons: set[object] = set()

    def pause_reading(self, reason: object) -> None:
        """Deliver nothing until `resume_reading` was called for this and every other reason."""
        if not self._reasons:
            self._channel.pause_deliveries()
        self._reasons.add(reason)

    def resume_reading(self, reason: object) -> None:
        """Remove one reason; without any the channel delivers again."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._channel.resume_deliveries()
