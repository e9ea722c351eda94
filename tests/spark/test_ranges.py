import itertools

from hypothesis import given
from hypothesis import strategies as st

from appendlog.spark.planning.ranges import (
    Range,
    first_overlap,
    join_ranges,
    offsets_in,
    subtract_ranges,
)

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted).map(tuple))


def members(ranges: list[Range]) -> set[int]:
    return {offset for start, end in ranges for offset in range(start, end)}


@given(RANGES)
def test_joined_ranges_hold_the_same_offsets_and_touch_nowhere(ranges: list[Range]) -> None:
    joined = join_ranges(ranges)
    assert members(joined) == members(ranges)
    assert all(start < end for start, end in joined)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(joined))
    assert offsets_in(joined) == len(members(ranges))


@given(RANGES, RANGES)
def test_what_is_covered_is_subtracted(ranges: list[Range], covered: list[Range]) -> None:
    ranges, covered = join_ranges(ranges), join_ranges(covered)
    left = subtract_ranges(ranges, covered)
    assert members(left) == members(ranges) - members(covered)
    assert left == join_ranges(left)


@given(RANGES)
def test_an_overlap_is_found_if_there_is_one(ranges: list[Range]) -> None:
    ranges = [each for each in ranges if each[0] < each[1]]
    overlap = first_overlap(ranges)
    assert (overlap is None) == (offsets_in(ranges) == len(members(ranges)))
    if overlap is not None:
        assert overlap[0] < overlap[1]
        for offset in range(*overlap):
            assert sum(start <= offset < end for start, end in ranges) > 1
