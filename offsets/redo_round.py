"""Round of a redo file: the transactions that are committed by the same sync.

It is the unit of writing, of syncing and of the CRC: either all its transactions are on the disk,
or none was confirmed. docs/redo-format.md, section 2, describes it.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from offsets.redo_transaction import RedoTransaction, decode_transaction, encode_transaction
from offsets.round_frame import UnknownVersionError, encode_front, find_content, find_front

REDO_VERSION: Final = 1
"""Only version that is written and read so far."""

MAGIC: Final = b"AQTX"

_TAIL: Final = struct.Struct("<B3xIQIIq")  # version, transactions, file, round, 0, written at
assert _TAIL.size == 32


@dataclass(frozen=True, slots=True)
class RedoRound:
    """Valid round, as found in a file.

    Attributes:
        file_number: Number of its file.
        number: 0 for a file's first round, then one more each.
        transactions: Transactions in the order of their commits.
        end: Position after the round.
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
    """Return a round as buffers, to be written one after the other.

    Args:
        file_number: Number of the file.
        number: 0 for the first round of the file.
        transactions: Transactions in the order of their commits, at least one.
        written_at_ns: Present time, ns since 1970 UTC; for people, not used by any reader.
    """
    bodies = [encode_transaction(transaction) for transaction in transactions]
    tail = _TAIL.pack(REDO_VERSION, len(bodies), file_number, number, 0, written_at_ns)
    return [encode_front(MAGIC, [tail, *bodies]), tail, *bodies]


def decode_redo_round(data: bytes, position: int) -> RedoRound | None:
    """Return the round at `position`, or None if there is no valid one.

    Raises:
        UnknownVersionError: There is a valid round of another version.
    """
    content = find_content(MAGIC, data, position, _TAIL.size)
    if content is None:
        return None
    version, count, file_number, number, _, _ = _TAIL.unpack_from(data, content.start)
    if version != REDO_VERSION:
        raise UnknownVersionError(version)
    transactions: list[RedoTransaction] = []
    at = content.start + _TAIL.size
    try:
        for _ in range(count):
            transaction, at = decode_transaction(data, at)
            transactions.append(transaction)
    except ValueError:
        return None
    return RedoRound(file_number, number, transactions, at) if at == content.stop else None


def find_redo_round(data: bytes, position: int) -> int:
    """Return where the first valid round at or after `position` begins, -1 if there is none.

    Raises:
        UnknownVersionError: The first valid round is of another version.
    """
    return find_front(MAGIC, data, position, decode_redo_round)
