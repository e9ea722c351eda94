"""One round of a redo file: the transactions that are committed by the same sync.

The unit of writing, of syncing and of the CRC: all its transactions are on the disk, or none
was promised. Drawn in docs/redo-format.md, section 2.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from offsets.redo_transaction import RedoTransaction, decode_transaction, encode_transaction

REDO_VERSION: Final = 1
"""The only version written and read so far."""

MAGIC: Final = b"AQTX"

_FRONT: Final = struct.Struct("<4sIQ")  # magic, CRC, length
_TAIL: Final = struct.Struct("<B3xIQIIq")  # version, transactions, file, round, 0, written at
_CRC_START: Final = 8
_LENGTH: Final = struct.Struct("<Q")
assert _FRONT.size == 16
assert _TAIL.size == 32

HEADER_BYTES: Final = _FRONT.size + _TAIL.size


class UnknownRedoVersionError(Exception):
    """A round is whole, but of another version: the reader says in which file.

    Attributes:
        found: Its version.
    """

    def __init__(self, found: int) -> None:
        """Keep the version found."""
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, slots=True)
class RedoRound:
    """A valid round as found in a file.

    Attributes:
        file_number: Number of the file it was written to.
        number: 0 for a file's first round, then one more each.
        transactions: In the order of their commits.
        end: Position behind the round.
    """

    file_number: int
    number: int
    transactions: list[RedoTransaction]
    end: int


def encode_redo_round(
    file_number: int,
    number: int,
    transactions: Sequence[RedoTransaction],
    *,
    written_at_ns: int,
) -> list[bytes]:
    """Return a round as buffers to be written one behind the other.

    Args:
        file_number: Of the file that it is for.
        number: 0 for the first of the file.
        transactions: In the order of their commits, at least one.
        written_at_ns: Now, ns UTC; for people, never read back.
    """
    bodies = [encode_transaction(transaction) for transaction in transactions]
    tail = _TAIL.pack(REDO_VERSION, len(bodies), file_number, number, 0, written_at_ns)
    length = len(tail) + sum(map(len, bodies))
    crc = crc32c(tail, crc32c(_LENGTH.pack(length)))
    for body in bodies:
        crc = crc32c(body, crc)
    return [_FRONT.pack(MAGIC, crc, length) + tail, *bodies]


def decode_redo_round(data: bytes, position: int) -> RedoRound | None:
    """Return the round at `position`, or None when there is no valid one.

    Raises:
        UnknownRedoVersionError: There is a valid one of another version.
    """
    if position + HEADER_BYTES > len(data):
        return None
    magic, crc, length = _FRONT.unpack_from(data, position)
    start = position + _FRONT.size
    end = start + length
    if magic != MAGIC or length < _TAIL.size or end > len(data):
        return None
    if crc32c(memoryview(data)[position + _CRC_START : end]) != crc:
        return None
    version, count, file_number, number, _, _ = _TAIL.unpack_from(data, start)
    if version != REDO_VERSION:
        raise UnknownRedoVersionError(version)
    transactions: list[RedoTransaction] = []
    at = start + _TAIL.size
    try:
        for _ in range(count):
            transaction, at = decode_transaction(data, at)
            transactions.append(transaction)
    except ValueError:
        return None
    return RedoRound(file_number, number, transactions, end) if at == end else None


def find_redo_round(data: bytes, position: int) -> int:
    """Return where the first valid round at or behind `position` begins, -1 if there is none.

    Raises:
        UnknownRedoVersionError: The first valid one is of another version.
    """
    position = data.find(MAGIC, position)
    while position >= 0 and decode_redo_round(data, position) is None:
        position = data.find(MAGIC, position + 1)
    return position
