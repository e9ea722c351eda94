"""The channels that have counted something which may not be in the sums yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.counters.reported_pairs import ReportedPairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.counters.channel_counters import ChannelCounters


class CountedChannels:
    """The counters of all channels that have published or got anything, until they end.

    The event loop owns it.

    Attributes:
        reported: Pairs that readers of the change feed know, also those of queues and exchanges.
    """

    def __init__(self) -> None:
        self.reported = ReportedPairs()
        self._channels: dict[ChannelCounters, None] = {}

    def __iter__(self) -> Iterator[ChannelCounters]:
        """Iterate over the counters of the channels; some may end during the loop."""
        return iter(tuple(self._channels))

    def add(self, channel: ChannelCounters) -> None:
        """Add a channel that begins to count."""
        self._channels[channel] = None

    def remove(self, channel: ChannelCounters) -> None:
        """Remove a channel that has ended."""
        self._channels.pop(channel, None)

    def fold(self) -> Iterator[None]:
        """Bring all sums up to date, some pairs of one channel in each step."""
        for channel in self:
            yield from channel.end() if channel.has_ended else channel.fold()
            yield
