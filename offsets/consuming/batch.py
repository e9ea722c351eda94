"""Records of one log that a consumer was given together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from appendlog import StoredRecord
from appendlog.embedded.records import payloads_of


@dataclass(frozen=True, slots=True)
class ConsumedBatch:
    """Some records of one log, in order.

    Attributes:
        log: Its name.
        start: Where the read began; offsets from here to `end` that are not in `offsets` are not
            in the log, or the group is done with them.
        end: Where the next batch begins.
        offsets: Strictly increasing, at least one.
        timestamps_ns: When they were appended.
        messages: As docs/log-format.md draws them in section 5; the batch's own.
    """

    log: str
    start: int
    end: int
    offsets: list[int]
    timestamps_ns: list[int]
    messages: list[bytes]

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[StoredRecord]:
        return map(StoredRecord, self.offsets, self.timestamps_ns, self.messages)

    @property
    def payloads(self) -> list[bytes]:
        """What was appended; copies, made each time."""
        return payloads_of(self.messages)

    def singles(self) -> list[ConsumedBatch]:
        """Return it as batches of one record, that together stand for the same offsets."""
        starts = [self.start, *[offset + 1 for offset in self.offsets[:-1]]]
        ends = [*[offset + 1 for offset in self.offsets[:-1]], self.end]
        parts = zip(starts, ends, self.offsets, self.timestamps_ns, self.messages, strict=True)
        return [
            ConsumedBatch(self.log, start, end, [offset], [time_ns], [message])
            for start, end, offset, time_ns, message in parts
        ]
