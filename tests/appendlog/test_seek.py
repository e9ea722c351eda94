"""Going to a place in a log, by offset and by time: always the record that a scan would find."""

import random
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appendlog import Log, LogReader
from tests.appendlog.test_compaction import (
    Records,
    a_random_log,
    compact_all,
    random_settlement,
    records,
)


@settings(max_examples=max(settings().max_examples // 2, 20))
@given(st.integers(0, 1 << 32), st.booleans(), st.booleans())
def test_a_place_is_found_where_a_scan_finds_it(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    is_compacted: bool,
    is_shortened: bool,
) -> None:
    """Through equal times, gaps, several segments, packed chunks, compaction and retention."""
    directory = tmp_path_factory.mktemp("seek") / "log"
    chance = random.Random(seed)
    log, _ = a_random_log(directory, chance)
    settlement = random_settlement(chance, log.log_end_offset)
    if is_compacted:
        compact_all(log, settlement.ack_floor, settlement.ranges())
    if is_shortened:
        log.remove_settled(chance.randrange(log.log_end_offset))
    found = records(log)
    moments = _moments(found, chance)
    _check(log, found, moments, chance)
    with LogReader(directory) as reader:
        for moment in moments:
            assert reader.first_offset_at(moment) == _scan(log, found, moment)
    log.close()


def _moments(found: Records, chance: random.Random) -> list[int]:
    """Return times to look for: before the first, behind the last, at and around any of them."""
    times = [time_ns for time_ns, _ in found.values()]
    near = {time_ns + step for time_ns in times for step in (-1, 0, 1)}
    return [0, *chance.sample(sorted(near), min(len(near), 60)), max(times, default=0) + 1, 1 << 62]


def _check(log: Log, found: Records, moments: list[int], chance: random.Random) -> None:
    for moment in moments:
        assert log.first_offset_at(moment) == _scan(log, found, moment)
    offsets = sorted(found)
    end = log.log_end_offset
    for offset in (0, end - 1, end, end + 1, *(chance.randrange(end) for _ in range(60))):
        at = bisect_left(offsets, offset)
        read = log.read(offset, 1, 1)
        assert read.offsets == offsets[at : at + 1]
        window = log.read_window(offset, 1_000)
        assert window.offsets[:1] == offsets[at : at + 1]


def _scan(log: Log, found: Records, moment: int) -> int:
    later = (offset for offset, (time_ns, _) in found.items() if time_ns >= moment)
    return next(later, log.log_end_offset)
