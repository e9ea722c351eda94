"""The footer's last fields lie where docs/log-format.md, section 6, says, and come back."""

from __future__ import annotations

from struct import Struct

import pytest

from appendlog.layout.format import CHUNK_HEADER_BYTES
from appendlog.layout.summary import (
    SegmentSummary,
    decode_footer,
    decode_removed,
    encode_footer,
)
from tests.appendlog.builders import SALT

COUNT_AND_FLAGS = Struct("<II")
COUNT_AT = 176
RANGES = [(5, 7), (9, 20)]


@pytest.mark.parametrize("ranges", [[], RANGES])
@pytest.mark.parametrize("are_joined", [False, True])
@pytest.mark.parametrize("steps_back", [False, True])
def test_removed_ranges_and_their_flags_are_kept(
    ranges: list[tuple[int, int]], are_joined: bool, steps_back: bool
) -> None:
    summary = SegmentSummary(first_offset=3, end_offset=30, last_timestamp_ns=1_000)
    summary.steps_back = steps_back
    chunk = encode_footer(summary, SALT, ranges, are_joined=are_joined)
    flags = are_joined | steps_back << 1
    assert COUNT_AND_FLAGS.unpack_from(chunk, COUNT_AT) == (len(ranges), flags)
    payload = chunk[CHUNK_HEADER_BYTES:]
    assert decode_removed(payload) == (ranges, are_joined)
    decoded = decode_footer(payload)
    assert decoded is not None
    assert (decoded.end_offset, decoded.steps_back) == (30, steps_back)
