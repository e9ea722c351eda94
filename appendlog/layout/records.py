"""Kernels for records: the compiled build if there is one, otherwise the interpreted one.

`AMQP_SERVER_PURE_PYTHON=1` uses the interpreted sources; `AMQP_SERVER_REQUIRE_COMPILED=1` refuses
to import without the compiled ones. `COMPILED` states which ones are in use.

    encode_chunk(messages, base_offset, offset_deltas, first_timestamp_ns,
                 timestamp_deltas_ns, salt, transaction_id=b"") -> bytes

Encode one data chunk. `messages` are at least one, in the format of `appendlog.layout.message`;
they are copied. `offset_deltas` strictly increase in [0, 2^32); None means 0, 1, 2, ...
`timestamp_deltas_ns` are >= 0 and saturate at 2^32 - 1; None means all 0. `salt` is
`LogIdentity.salt`. `transaction_id` is 16 bytes or empty. Raises ValueError for anything else, and
for a message whose lengths do not add up; there is no partial result.

    encode_payloads(payloads, prefix, base_offset, timestamp_ns, salt) -> bytes

Encode the chunk of the messages `prefix + payload`, without making these messages: for a writer
whose messages share key, headers and time. The prefix is a whole message without a body, PERSISTENT
and without expiration and priority. Otherwise raises ValueError, like `encode_chunk`, and TypeError
for a payload that is not bytes.

    priority_and_expiration(properties, at, end) -> (priority, milliseconds)

Return the two basic properties that the log itself reads, of the list `properties[at:end]` in wire
format: they determine which chunks can hold messages that expire or have a priority. -1 stands for
one that is absent or cannot be read. An expiration above 10^12 (31 years) counts as that one, so
that sums fit in 64 bits.

    walk_chunks(data, position, end, salt, from_offset, until_offset, max_records,
                max_bytes, offsets, timestamps_ns, positions, lengths)
        -> (status, position, next_offset, record_count, message_bytes)

Walk over the chunks of `data[position:end]` and note each record with an offset in `[from_offset,
until_offset)` in the four arrays, which have a place for each: position and length of its message
in `data`. No message is copied. Notes at most `max_records` records, at most as many as the arrays
have places, and no more once their messages reach `max_bytes` (so one record always fits; both must
be >= 1). `data` is any buffer of octets; `offsets` and `timestamps_ns` are `array("q")`,
`positions` and `lengths` `array("I")`. Stops with

- WALK_END: at `end`, at `until_offset`, or at a limit,
- WALK_SHORT: the bytes from `position` on are the start of a chunk that passes `end`,
- WALK_FAULT: there is no valid chunk at `position`, or it has a lower base offset than the chunk
  before it,
- WALK_COMPRESSED: there is a valid chunk at `position` that `expand_chunk` has to decompress first.

`position` is where the next walk begins: the start of a chunk, of the same chunk if the walk
reached a limit inside it. `next_offset` is the lowest offset that the walk has not looked at, at
least `from_offset`. The walk checks the CRC of every chunk that it passes or takes records from.

    cut_messages(data, positions, lengths, start, stop) -> list[bytes]

Return copies of the messages that `walk_chunks` has noted at `[start, stop)`.

    sum_chunks(data, position, end, begin_before, salt, minimum_offset, sums) -> position

Check the consecutive data chunks from `position` on that begin before `begin_before` and lie wholly
in `data[:end]`, and add them to `sums`, an `array("q")` of `SUMS` elements, zeros at first: chunks,
records, transient records, body bytes, greatest append time, earliest expiry, latest expiry
(0 = none), priority bitmap, base offset of the first chunk, its append time, offset after the last
one. Returns the position after the last chunk. If that is below both ends, the caller examines what
is there: a control chunk, the start of a chunk, or nothing valid.
"""

from __future__ import annotations

from array import array
from typing import Protocol

from appendlog.layout import _encoding_py, _walking_py
from appendlog.layout._walking_py import (
    SUM_BASE_OFFSET,
    SUM_FIRST_TIMESTAMP,
    SUMS,
    WALK_COMPRESSED,
    WALK_END,
    WALK_FAULT,
    WALK_SHORT,
    ReadableBuffer,
)
from appendlog.layout.builds import chosen_build

__all__ = [
    "COMPILED",
    "SUMS",
    "SUM_BASE_OFFSET",
    "SUM_FIRST_TIMESTAMP",
    "WALK_COMPRESSED",
    "WALK_END",
    "WALK_FAULT",
    "WALK_SHORT",
    "EncodingKernel",
    "ReadableBuffer",
    "WalkingKernel",
    "cut_messages",
    "encode_chunk",
    "encode_payloads",
    "load_kernels",
    "priority_and_expiration",
    "sum_chunks",
    "walk_chunks",
]


class EncodingKernel(Protocol):
    """Functions of both builds of `_encoding_py`; documented at the top of this module."""

    def encode_chunk(
        self,
        messages: list[bytes],
        base_offset: int,
        offset_deltas: list[int] | None,
        first_timestamp_ns: int,
        timestamp_deltas_ns: list[int] | None,
        salt: int,
        transaction_id: bytes = b"",
    ) -> bytes:
        """Encode one data chunk."""

    def encode_payloads(
        self, payloads: list[bytes], prefix: bytes, base_offset: int, timestamp_ns: int, salt: int
    ) -> bytes:
        """Encode one data chunk of messages with a common prefix."""

    def priority_and_expiration(self, properties: bytes, at: int, end: int) -> tuple[int, int]:
        """Read the properties that the log itself needs."""


class WalkingKernel(Protocol):
    """Functions of both builds of `_walking_py`; documented at the top of this module."""

    def walk_chunks(
        self,
        data: ReadableBuffer,
        position: int,
        end: int,
        salt: int,
        from_offset: int,
        until_offset: int,
        max_records: int,
        max_bytes: int,
        offsets: array[int],
        timestamps_ns: array[int],
        positions: array[int],
        lengths: array[int],
    ) -> tuple[int, int, int, int, int]:
        """Walk over many chunks."""

    def cut_messages(
        self,
        data: ReadableBuffer,
        positions: array[int],
        lengths: array[int],
        start: int,
        stop: int,
    ) -> list[bytes]:
        """Copy messages that a walk has noted."""

    def sum_chunks(
        self,
        data: ReadableBuffer,
        position: int,
        end: int,
        begin_before: int,
        salt: int,
        minimum_offset: int,
        sums: array[int],
    ) -> int:
        """Check and add up many chunks."""


def load_kernels() -> tuple[tuple[EncodingKernel, WalkingKernel], bool]:
    """Return the kernels of the build that `chosen_build` selects, and whether it is compiled."""

    def load_compiled() -> tuple[EncodingKernel, WalkingKernel]:
        import appendlog.layout._encoding_c as encoding
        import appendlog.layout._walking_c as walking

        return encoding, walking

    return chosen_build(load_compiled, (_encoding_py, _walking_py))


(_encoding, _walking), COMPILED = load_kernels()
encode_chunk = _encoding.encode_chunk
encode_payloads = _encoding.encode_payloads
priority_and_expiration = _encoding.priority_and_expiration
walk_chunks = _walking.walk_chunks
cut_messages = _walking.cut_messages
sum_chunks = _walking.sum_chunks
