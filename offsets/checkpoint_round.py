"""One round of a checkpoint file: the unit of writing, of syncing and of the CRC.

Drawn in docs/checkpoint-format.md, section 2.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from offsets.queue_checkpoint import checkpoint_bytes
from offsets.round_frame import UnknownVersionError, encode_front, find_content, find_front

VERSION: Final = 2
"""The version that is written."""
_READ_VERSIONS: Final = (1, 2)
"""In version 1 no entry has redelivery runs; entries of both may stand in a round of version 2."""

MAGIC: Final = b"AQCP"

_TAIL: Final = struct.Struct("<BBHIIIQq")
assert _TAIL.size == 32

_INCARNATION_BYTES: Final = 16
_BASE: Final = 1
_CLEAN: Final = 2


@dataclass(frozen=True, slots=True)
class Round:
    """A valid round as found in a file.

    Attributes:
        generation: Generation of the file it was written to.
        number: 0 for a generation's first round, then one more each.
        is_base: It holds all queues, so what earlier rounds said does not matter.
        is_clean: It was the last of a clean stop.
        entries: Encoded queue checkpoints by the bytes of their incarnation.
        removed: Incarnations that are gone, as bytes.
        end: Position behind the round.
    """

    generation: int
    number: int
    is_base: bool
    is_clean: bool
    entries: dict[bytes, bytes]
    removed: list[bytes]
    end: int


def encode_round(
    generation: int,
    number: int,
    entries: Iterable[bytes],
    removed: Sequence[bytes],
    *,
    is_clean: bool,
    written_at_ns: int,
) -> list[bytes]:
    """Return a round as buffers to be written one behind the other.

    Args:
        generation: Of the file that it is for.
        number: 0 for the first of the file, which then must hold all queues.
        entries: Encoded queue checkpoints.
        removed: Incarnations to forget, 16 bytes each, none of them in `entries`.
        is_clean: Nothing will be delivered or settled after it before the next start.
        written_at_ns: Now, ns UTC; for people, never read back.
    """
    body = list(entries)
    flags = (_BASE if number == 0 else 0) | (_CLEAN if is_clean else 0)
    tail = _TAIL.pack(VERSION, flags, 0, len(body), len(removed), number, generation, written_at_ns)
    content = b"".join([tail, *body, *removed])
    return [encode_front(MAGIC, [content]), content]


def decode_round(data: bytes, position: int) -> Round | None:
    """Return the round at `position`, or None when there is no valid one.

    Raises:
        UnknownVersionError: There is a valid one of another version.
    """
    content = find_content(MAGIC, data, position, _TAIL.size)
    if content is None:
        return None
    version, flags, _, entry_count, removed_count, number, generation, _ = _TAIL.unpack_from(
        data, content.start
    )
    if version not in _READ_VERSIONS:
        raise UnknownVersionError(version)
    parts = _split(data, content.start + _TAIL.size, content.stop, entry_count, removed_count)
    if parts is None:
        return None
    is_base = bool(flags & _BASE)
    return Round(generation, number, is_base, bool(flags & _CLEAN), *parts, content.stop)


def find_round(data: bytes, position: int) -> int:
    """Return where the first valid round at or behind `position` begins, -1 if there is none.

    Raises:
        UnknownVersionError: The first valid one is of another version.
    """
    return find_front(MAGIC, data, position, decode_round)


def _split(
    data: bytes, position: int, end: int, entry_count: int, removed_count: int
) -> tuple[dict[bytes, bytes], list[bytes]] | None:
    """Cut a round's content into entries and removed incarnations; None if it does not fit."""
    entries: dict[bytes, bytes] = {}
    removed_start = end - removed_count * _INCARNATION_BYTES
    try:
        for _ in range(entry_count):
            entry_end = position + checkpoint_bytes(data, position)
            if entry_end > removed_start:
                return None
            entry = data[position:entry_end]
            entries[entry[:_INCARNATION_BYTES]] = entry
            position = entry_end
    except struct.error:
        return None
    if position != removed_start:
        return None
    removed = [
        data[place : place + _INCARNATION_BYTES]
        for place in range(removed_start, end, _INCARNATION_BYTES)
    ]
    return entries, removed
