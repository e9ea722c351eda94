"""Batch of records that a consumer gets from one log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from appendlog import StoredRecord
from appendlog.embedded.records import payloads_of


@dataclass(frozen=True, slots=True)
class ConsumedBatch:
    """Records of one log, in order.

    Attributes:
        log: Name of the log.
        start: Offset where the read began. Offsets from here to `end` that are not in `offsets` are
            not in the log, or the group has settled them.
        end: Offset where the next batch begins.
        offsets: Offsets of the records, strictly increasing, at least one.
        timestamps_ns: Append times of the records, ns since 1970 UTC.
        messages: Messages, owned by the batch; docs/log-format.md, section 5, describes them.
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
        """Payloads of the records; copies, made at each access."""
        return payloads_of(self.messages)

    def singles(self) -> list[ConsumedBatch]:
        """Return batches of one record each, which together cover the same offsets."""
        starts = [self.start, *[offset + 1 for offset in self.offsets[:-1]]]
        ends = [*[offset + 1 for offset in self.offsets[:-1]], self.end]
        parts = zip(starts, ends, self.offsets, self.timestamps_ns, self.messages, strict=True)
        return [
            ConsumedBatch(self.log, start, end, [offset], [time_ns], [message])
            for start, end, offset, time_ns, message in parts
        ]
