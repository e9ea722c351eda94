"""Transaction of the redo journal: all of it is applied, or nothing.

docs/redo-format.md, section 3, describes it.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

TRANSACTION_ID_BYTES: Final = 16

_TRANSACTION: Final = struct.Struct("<16sIIII")  # id, messages, targets, settled, 0
_MESSAGE: Final = struct.Struct("<I")  # bytes
_TARGET: Final = struct.Struct("<16sQII")  # incarnation, log end offset, runs, 0
_RUN: Final = struct.Struct("<II")  # start, end
_SETTLED: Final = struct.Struct("<16sII")  # incarnation, ranges, 0
_RANGE: Final = struct.Struct("<QQ")  # start, end
assert _TRANSACTION.size == 32
assert _TARGET.size == 32
assert _SETTLED.size == 24


@dataclass(frozen=True, slots=True)
class RedoTarget:
    """Messages of a transaction for one queue.

    Attributes:
        incarnation: Incarnation of the queue.
        log_end_offset: Offset in the queue's log below which this transaction has no records.
        runs: Half-open ranges of indexes of the transaction's messages, in their order.
    """

    incarnation: UUID
    log_end_offset: int
    runs: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class RedoSettled:
    """Offsets of one queue that the transaction settles.

    Attributes:
        incarnation: Incarnation of the queue.
        ranges: Half-open ranges, none empty; all of them are on the disk before the transaction is.
    """

    incarnation: UUID
    ranges: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class RedoTransaction:
    """Content of one commit.

    Attributes:
        transaction_id: 16 bytes, never used again; the log's chunks carry it too.
        messages: Messages in the format of a log record, each once for all its queues.
        targets: Messages for each queue, each queue once.
        settled: Acknowledged offsets, each queue once.
    """

    transaction_id: bytes
    messages: Sequence[bytes]
    targets: Sequence[RedoTarget]
    settled: Sequence[RedoSettled]

    def messages_of(self, target: RedoTarget) -> list[bytes]:
        """Return the messages for one queue, in order."""
        return [message for start, end in target.runs for message in self.messages[start:end]]


def encode_transaction(transaction: RedoTransaction) -> bytes:
    """Return the encoded transaction.

    Raises:
        ValueError: The id does not have 16 bytes.
    """
    if len(transaction.transaction_id) != TRANSACTION_ID_BYTES:
        raise ValueError(f"transaction id has {len(transaction.transaction_id)} bytes, expected 16")
    parts = [
        _TRANSACTION.pack(
            transaction.transaction_id,
            len(transaction.messages),
            len(transaction.targets),
            len(transaction.settled),
            0,
        )
    ]
    for message in transaction.messages:
        parts += (_MESSAGE.pack(len(message)), message)
    for target in transaction.targets:
        parts.append(
            _TARGET.pack(target.incarnation.bytes, target.log_end_offset, len(target.runs), 0)
        )
        parts += (_RUN.pack(start, end) for start, end in target.runs)
    for settled in transaction.settled:
        parts.append(_SETTLED.pack(settled.incarnation.bytes, len(settled.ranges), 0))
        parts += (_RANGE.pack(start, end) for start, end in settled.ranges)
    return b"".join(parts)


def decode_transaction(data: bytes, position: int) -> tuple[RedoTransaction, int]:
    """Return the transaction at `position` and the position after it.

    Raises:
        ValueError: The bytes end inside it, or contradict each other.
    """
    try:
        return _decode(data, position)
    except struct.error as error:
        raise ValueError(f"transaction at {position}: {error}") from error


def _decode(data: bytes, position: int) -> tuple[RedoTransaction, int]:
    transaction_id, message_count, target_count, settled_count, _ = _TRANSACTION.unpack_from(
        data, position
    )
    position += _TRANSACTION.size
    messages: list[bytes] = []
    for _ in range(message_count):
        (size,) = _MESSAGE.unpack_from(data, position)
        start = position + _MESSAGE.size
        position = start + size
        if position > len(data):
            raise ValueError(f"message of {size} bytes at {start} passes the end")
        messages.append(data[start:position])
    targets: list[RedoTarget] = []
    for _ in range(target_count):
        incarnation, log_end_offset, run_count, _ = _TARGET.unpack_from(data, position)
        runs, position = _pairs(_RUN, data, position + _TARGET.size, run_count)
        if any(not start < end <= message_count for start, end in runs):
            raise ValueError(f"a run of messages that are not there before {position}")
        targets.append(RedoTarget(UUID(bytes=incarnation), log_end_offset, runs))
    settled: list[RedoSettled] = []
    for _ in range(settled_count):
        incarnation, range_count, _ = _SETTLED.unpack_from(data, position)
        ranges, position = _pairs(_RANGE, data, position + _SETTLED.size, range_count)
        if any(start >= end for start, end in ranges):
            raise ValueError(f"an empty range before {position}")
        settled.append(RedoSettled(UUID(bytes=incarnation), ranges))
    return RedoTransaction(transaction_id, messages, targets, settled), position


def _pairs(
    layout: struct.Struct, data: bytes, position: int, count: int
) -> tuple[list[tuple[int, int]], int]:
    pairs: list[tuple[int, int]] = []
    for _ in range(count):
        start, end = layout.unpack_from(data, position)
        pairs.append((start, end))
        position += layout.size
    return pairs, position
