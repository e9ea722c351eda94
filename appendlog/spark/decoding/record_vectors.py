"""The records of many chunks as vectors.

Only in chunks whose records are not all of one size the way from one to the next is a loop.

Source: docs/log-format.md, section 4.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - a class, whatever its name
from typing import Final, NamedTuple

import numpy as np

from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    FLAG_TRANSACTION,
    RECORD_BYTES_MIN,
    RECORD_HEADER_BYTES,
    TRANSACTION_ID_BYTES,
)
from appendlog.spark.decoding.chunk_vectors import Chunks, first_true
from appendlog.spark.decoding.octets import Integers, Mask, Octets, u32_at

_SIZE: Final = Struct("<I")
_NONE: Final = np.empty(0, np.int64)
_ZERO: Final = np.zeros(1, np.int64)


class ChunkRecords(NamedTuple):
    """The records of some chunks, from the first offset asked for on.

    Attributes:
        offsets: Strictly increasing.
        timestamps_ns: Append times.
        positions: Of the messages.
        lengths: Of the messages.
        ends: Per chunk, how many records it and those before it have.
        bytes_before: Of the messages before each record, and of all.
    """

    offsets: Integers
    timestamps_ns: Integers
    positions: Integers
    lengths: Integers
    ends: Integers
    bytes_before: Integers


def records_of(octets: Octets, chunks: Chunks, from_offset: int) -> ChunkRecords:
    """Return the records of chunks, up to the first whose records do not fit it.

    Args:
        octets: Where the chunks lie.
        chunks: Whose checksums are right.
        from_offset: Records below it are left out.
    """
    at, counts = _record_starts(octets, chunks)
    sizes, deltas = u32_at(octets, at), u32_at(octets, at + 4)
    fitting = _fitting(chunks, counts, sizes, deltas)
    if fitting < len(counts):
        counts = counts[:fitting]
        kept = int(counts.sum())
        at, sizes, deltas = at[:kept], sizes[:kept], deltas[:kept]
    headers = chunks.headers[: len(counts)]
    offsets = np.repeat(headers["base_offset"], counts) + deltas
    times_ns = np.repeat(headers["first_timestamp_ns"], counts) + u32_at(octets, at + 8)
    # Only the first chunk that is not passed can begin below the first offset.
    below = int(np.searchsorted(offsets, from_offset))
    lengths = sizes[below:] - 8
    return ChunkRecords(
        offsets[below:],
        times_ns[below:],
        at[below:] + RECORD_HEADER_BYTES,
        lengths,
        np.maximum(np.cumsum(counts) - below, 0),
        np.concatenate((_ZERO, np.cumsum(lengths))),
    )


def _record_starts(octets: Octets, chunks: Chunks) -> tuple[Integers, Integers]:
    """Return where records begin, and how many each chunk has.

    Up to the first chunk whose records do not end with it; those that are passed have none.
    """
    has_id = chunks.headers["flags"] & FLAG_TRANSACTION
    firsts = chunks.starts + CHUNK_HEADER_BYTES + has_id * np.int64(TRANSACTION_ID_BYTES)
    counts = np.where(chunks.is_passed, 0, chunks.headers["record_count"].astype(np.int64))
    spans = chunks.stops - firsts
    wanted = np.flatnonzero(~chunks.is_passed)
    # No more records than there can be, before anything of that size is made.
    broken = first_true((spans[wanted] < RECORD_BYTES_MIN * counts[wanted]) | (counts[wanted] == 0))
    if broken < len(wanted):
        until = int(wanted[broken])
        wanted = wanted[:broken]
        firsts, counts, spans = firsts[:until], counts[:until], spans[:until]
    steps = np.zeros_like(counts)
    steps[wanted] = u32_at(octets, firsts[wanted]) + 4
    starts, is_even = _even_starts(octets, firsts, steps, counts, spans)
    if is_even.all():
        return starts, counts
    return _uneven_starts(octets, starts, is_even, firsts, counts, spans)


def _uneven_starts(
    octets: Octets,
    even: Integers,
    is_even: Mask,
    firsts: Integers,
    counts: Integers,
    spans: Integers,
) -> tuple[Integers, Integers]:
    """Go from record to record in chunks whose records are not of one size."""
    found: list[Integers] = []
    to = 0
    for chunk, count in enumerate(counts.tolist()):
        starts: Integers | None = even[to : to + count]
        to += count
        if not is_even[chunk]:
            first = int(firsts[chunk])
            starts = _follow(octets.data, first, first + int(spans[chunk]), count)
        if starts is None:
            counts = counts[:chunk]
            break
        found.append(starts)
    return np.concatenate(found) if found else _NONE, counts


def _even_starts(
    octets: Octets, firsts: Integers, steps: Integers, counts: Integers, spans: Integers
) -> tuple[Integers, Mask]:
    """Return where records begin if those of a chunk are of one size, and whether they are."""
    is_even = (steps * counts == spans) | (counts == 0)
    ends = np.cumsum(counts)
    before: Integers = np.repeat(ends - counts, counts)
    stride: Integers = np.repeat(np.where(is_even, steps, 0), counts)
    starts: Integers = np.repeat(firsts, counts)
    starts += (np.arange(len(starts)) - before) * stride
    is_wrong = u32_at(octets, starts) + 4 != np.repeat(steps, counts)
    if is_wrong.any():
        is_even[np.searchsorted(ends, np.flatnonzero(is_wrong), side="right")] = False
    return starts, is_even


def _follow(view: memoryview, at: int, stop: int, count: int) -> Integers | None:
    """Go from record to record; None when that does not lead to `stop` in `count` steps."""
    starts: list[int] = []
    add, size_at = starts.append, _SIZE.unpack_from
    try:
        for _ in range(count):
            add(at)
            at += 4 + size_at(view, at)[0]
    except StructError:
        return None
    return np.array(starts, np.int64) if at == stop else None


def _fitting(chunks: Chunks, counts: Integers, sizes: Integers, deltas: Integers) -> int:
    """Return how many chunks have records as their headers say, up to the first that has not."""
    ends = np.cumsum(counts)
    bad = sizes < RECORD_BYTES_MIN - 4
    has_records = counts > 0
    if len(deltas):
        falls = np.diff(deltas, prepend=-1) <= 0
        falls[(ends - counts)[has_records]] = False  # each chunk begins anew
        bad |= falls
    last = chunks.headers["last_offset_delta"][: len(counts)]
    is_wrong = np.zeros(len(counts), bool)
    is_wrong[has_records] = deltas[ends[has_records] - 1] != last[has_records]
    if bad.any():
        is_wrong[np.searchsorted(ends, np.flatnonzero(bad), side="right")] = True
    return first_true(is_wrong)
