"""Consecutive messages in a buffer, delivered without one object for each."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from amqp_server.protocol.framing import encode_run, matching_messages, matching_run
from appendlog import cut_messages

if TYPE_CHECKING:
    from appendlog import Records


class MessageRun:
    """Records without gaps between their offsets, from one read of the log.

    Args:
        records: Records that the read returned.
        start: Index of the run's first record.
        stop: Index after its last record; greater than `start`.
    """

    __slots__ = ("_records", "_start", "_stop")

    def __init__(self, records: Records, start: int, stop: int) -> None:
        self._records = records
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self._start

    def messages(self) -> list[bytes]:
        """Return copies of the messages, for callers that need more than their deliveries."""
        records = self._records
        return cut_messages(
            records.buffer, records.positions, records.lengths, self._start, self._stop
        )

    def up_to(self, bytes_max: int) -> MessageRun:
        """Return the longest prefix within about `bytes_max`, at least one message.

        The count includes the few octets between the messages.
        """
        positions = self._records.positions
        end = positions[self._start] + bytes_max
        last = self._stop - 1
        if positions[last] + self._records.lengths[last] <= end:
            return self
        # A message that begins before `end` may end after it.
        stop = bisect_right(positions, end, self._start, self._stop) - 1
        return MessageRun(self._records, self._start, max(stop, self._start + 1))

    def matching(self, values: frozenset[bytes], match_unfiltered: bool) -> list[tuple[int, int]]:
        """Return the index ranges of the messages that pass a filter; see `matching_ranges`."""
        records = self._records
        ranges: list[tuple[int, int]] = matching_run(
            records.buffer,
            records.positions,
            records.lengths,
            self._start,
            self._stop,
            values,
            match_unfiltered,
        )
        return ranges

    def encode(
        self,
        channel: int,
        consumer_tag: bytes,
        first_tag: int,
        redelivered: bool,
        frame_max: int,
        first_offset: int = -1,
    ) -> bytes | bytearray:
        """Return the octets of the deliveries; see `amqp_server.protocol.framing`."""
        records = self._records
        octets: bytes | bytearray = encode_run(
            records.buffer,
            records.positions,
            records.lengths,
            self._start,
            self._stop,
            channel,
            consumer_tag,
            first_tag,
            redelivered,
            frame_max,
            first_offset,
        )
        return octets


Messages = list[bytes] | MessageRun
"""Messages that a store returns: objects from the ring, or a run that was read from the log."""


def messages_of(messages: Messages) -> list[bytes]:
    """Return each message as an object of its own."""
    return messages if isinstance(messages, list) else messages.messages()


def matching_ranges(
    messages: Messages, values: frozenset[bytes], match_unfiltered: bool
) -> list[tuple[int, int]]:
    """Return which messages pass a stream filter, as index ranges in the run, from 0.

    It creates no message objects. `amqp_server.protocol.framing.matching_messages` defines
    what matches.

    Args:
        messages: Messages with consecutive offsets.
        values: Accepted values of the header `x-stream-filter-value`.
        match_unfiltered: Whether messages without that header match too.
    """
    if isinstance(messages, list):
        ranges: list[tuple[int, int]] = matching_messages(messages, values, match_unfiltered)
        return ranges
    return messages.matching(values, match_unfiltered)


def find_run(records: Records, start: int, end: int) -> MessageRun | None:
    """Return the messages from `start` up to the first gap, or up to `end`.

    Returns None if `records` does not have `start`.
    """
    offsets = records.offsets
    if isinstance(offsets, range):
        if start not in offsets:
            return None
        at = start - offsets.start
        return MessageRun(records, at, min(len(offsets), at + end - start))
    at = bisect_right(offsets, start) - 1
    if at < 0 or offsets[at] != start:
        return None
    # Offsets rise by at least 1 for each index, so offset minus index never falls.
    low, high = at + 1, min(len(offsets), at + end - start)
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] - middle == start - at:
            low = middle + 1
        else:
            high = middle
    return MessageRun(records, at, low)
