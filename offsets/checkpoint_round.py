"""Round of a checkpoint file: the unit of writing, of syncing and of the CRC.

docs/checkpoint-format.md, section 2, describes it.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from offsets.group_checkpoint import (
    GroupKey,
    decode_group_key,
    group_checkpoint_bytes,
    group_checkpoint_bytes_v3,
    group_checkpoint_from_v3,
    group_key,
)
from offsets.queue_checkpoint import checkpoint_bytes, checkpoint_bytes_v3, checkpoint_from_v3
from offsets.round_frame import UnknownVersionError, encode_front, find_content, find_front

VERSION: Final = 4
"""Version that is written."""
_READ_VERSIONS: Final = (1, 2, 3, 4)
"""Versions that can be read.

In version 1 no entry has redelivery runs, before version 3 there are no groups, and before version
4 no entry has a recovery point. Reading converts entries to version 4; they may still have the
counts of version 1.
"""

MAGIC: Final = b"AQCP"

_TAIL: Final = struct.Struct("<BBHIIIQq")
assert _TAIL.size == 32
_GROUP_COUNTS: Final = struct.Struct("<II")
_GROUPS_VERSION: Final = 3
_RECOVERY_POINTS_VERSION: Final = 4

_INCARNATION_BYTES: Final = 16
_BASE: Final = 1
_CLEAN: Final = 2


@dataclass(frozen=True, slots=True)
class Round:
    """Valid round, as found in a file.

    Attributes:
        generation: Generation of its file.
        number: 0 for a generation's first round, then one more each.
        is_base: Whether it holds all queues, so that earlier rounds do not matter.
        is_clean: Whether it was the last round of a clean stop.
        entries: Encoded queue checkpoints, by the bytes of their incarnation.
        removed: Incarnations that are gone, as bytes; their groups are gone with them.
        groups: Encoded group checkpoints.
        removed_groups: Groups that are gone: incarnation and name in UTF-8.
        end: Position after the round.
    """

    generation: int
    number: int
    is_base: bool
    is_clean: bool
    entries: dict[bytes, bytes]
    removed: list[bytes]
    groups: list[bytes]
    removed_groups: list[GroupKey]
    end: int


@dataclass(frozen=True, slots=True)
class RoundContent:
    """Encoded content of a round.

    Attributes:
        entries: Encoded queue checkpoints.
        removed: Incarnations to remove, 16 bytes each, none of them in `entries` or `groups`.
        groups: Encoded group checkpoints.
        removed_groups: Groups to remove, from `encode_group_key`, none of them in `groups`.
    """

    entries: Sequence[bytes] = ()
    removed: Sequence[bytes] = ()
    groups: Sequence[bytes] = ()
    removed_groups: Sequence[bytes] = ()


def encode_round(
    generation: int,
    number: int,
    content: RoundContent,
    *,
    is_clean: bool,
    written_at_ns: int,
) -> list[bytes]:
    """Return a round as buffers, to be written one after the other.

    Args:
        generation: Generation of the file.
        number: 0 for the first round of the file, which must hold all queues.
        content: Content of the round.
        is_clean: Whether nothing is delivered or settled after it before the next start.
        written_at_ns: Present time, ns since 1970 UTC; for people, not used by any reader.
    """
    flags = (_BASE if number == 0 else 0) | (_CLEAN if is_clean else 0)
    counts = (len(content.entries), len(content.removed))
    tail = _TAIL.pack(VERSION, flags, 0, *counts, number, generation, written_at_ns)
    group_counts = _GROUP_COUNTS.pack(len(content.groups), len(content.removed_groups))
    parts = (content.entries, content.removed, content.groups, content.removed_groups)
    body = b"".join([tail, group_counts, *chain.from_iterable(parts)])
    return [encode_front(MAGIC, [body]), body]


def decode_round(data: bytes, position: int) -> Round | None:
    """Return the round at `position`, or None if there is no valid one.

    Raises:
        UnknownVersionError: There is a valid round of another version.
    """
    content = find_content(MAGIC, data, position, _TAIL.size)
    if content is None:
        return None
    version, flags, _, entry_count, removed_count, number, generation, _ = _TAIL.unpack_from(
        data, content.start
    )
    if version not in _READ_VERSIONS:
        raise UnknownVersionError(version)
    try:
        parts = _split(data, content, version, entry_count, removed_count)
    except (struct.error, UnicodeDecodeError):
        parts = None
    if parts is None:
        return None
    is_base = bool(flags & _BASE)
    return Round(generation, number, is_base, bool(flags & _CLEAN), *parts, content.stop)


def find_round(data: bytes, position: int) -> int:
    """Return where the first valid round at or after `position` begins, -1 if there is none.

    Raises:
        UnknownVersionError: The first valid round is of another version.
    """
    return find_front(MAGIC, data, position, decode_round)


_Parts = tuple[dict[bytes, bytes], list[bytes], list[bytes], list[GroupKey]]


def _split(
    data: bytes, content: range, version: int, entry_count: int, removed_count: int
) -> _Parts | None:
    """Split a round's content into its parts; None if the sizes do not fit.

    Raises:
        struct.error: The sizes do not fit.
        UnicodeDecodeError: The name of a group is not UTF-8.
    """
    position, end = content.start + _TAIL.size, content.stop
    group_count = removed_group_count = 0
    if version >= _GROUPS_VERSION:
        group_count, removed_group_count = _GROUP_COUNTS.unpack_from(data, position)
        position += _GROUP_COUNTS.size
    is_old = version < _RECOVERY_POINTS_VERSION
    size_of = checkpoint_bytes_v3 if is_old else checkpoint_bytes
    cut, position = _cut(data, position, end, entry_count, size_of)
    removed, position = _cut(data, position, end, removed_count, _incarnation_bytes)
    size_of = group_checkpoint_bytes_v3 if is_old else group_checkpoint_bytes
    groups, position = _cut(data, position, end, group_count, size_of)
    if is_old:
        cut = list(map(checkpoint_from_v3, cut))
        groups = list(map(group_checkpoint_from_v3, groups))
    entries = {entry[:_INCARNATION_BYTES]: entry for entry in cut}
    for group in groups:
        # Readers decode it later: check now that it is UTF-8.
        group_key(group)[1].decode()
    removed_groups: list[GroupKey] = []
    for _ in range(removed_group_count):
        key, position = decode_group_key(data, position)
        removed_groups.append(key)
        if position > end:
            return None
    return (entries, removed, groups, removed_groups) if position == end else None


def _cut(
    data: bytes, position: int, end: int, count: int, size_of: Callable[[bytes, int], int]
) -> tuple[list[bytes], int]:
    """Return `count` pieces from `position` on, and the position after them.

    Raises:
        struct.error: The pieces pass `end`.
    """
    pieces: list[bytes] = []
    for _ in range(count):
        piece_end = position + size_of(data, position)
        if piece_end > end:
            raise struct.error
        pieces.append(data[position:piece_end])
        position = piece_end
    return pieces, position


def _incarnation_bytes(_data: bytes, _position: int) -> int:
    return _INCARNATION_BYTES
