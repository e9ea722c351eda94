"""How often messages came back: like a dictionary by offset, but in runs and bounded."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.merged_ranges import merged
from amqp_server.broker.rules import delivery_counts
from amqp_server.broker.rules.delivery_counts import PART_RUNS, DeliveryCounts
from offsets.settlement import Settlement

SPAN = 60


def test_returns_are_counted_by_message_and_told_apart_at_the_limit() -> None:
    counts = DeliveryCounts(2, [(5, 6, 2), (9, 10, 1)])

    assert counts.add([(3, 8)]) == [(3, 5, False), (5, 6, True), (6, 8, False)]
    assert [counts.get(offset) for offset in (3, 5, 9, 10)] == [1, 3, 1, 0]


def ranges(pair: tuple[int, int]) -> tuple[int, int]:
    return min(pair), max(pair) + 1


windows = st.tuples(st.integers(0, SPAN - 1), st.integers(0, SPAN - 1)).map(ranges)


offsets = st.lists(st.sets(st.integers(0, SPAN - 1)) | windows.map(lambda pair: set(range(*pair))))


@given(offsets, st.none() | st.integers(0, 4), windows)
def test_runs_say_what_a_count_for_each_message_says(
    returns: list[set[int]], limit: int | None, window: tuple[int, int]
) -> None:
    model = dict.fromkeys(range(SPAN), 0)
    counts = DeliveryCounts(limit)
    for returned in returns:
        verdicts = counts.add(merged((offset, offset + 1) for offset in returned))
        for offset in returned:
            model[offset] += 1
        said = {offset: over for low, high, over in verdicts for offset in range(low, high)}
        assert said == {offset: limit is not None and model[offset] > limit for offset in returned}
        assert all(one[2] != two[2] or one[1] < two[0] for one, two in pairwise(verdicts))
    assert [counts.get(offset) for offset in range(SPAN)] == list(model.values())
    assert list(counts.numbers(*window)) == [model[offset] for offset in range(*window)]
    assert len(counts) == sum(1 for count in model.values() if count)
    runs = counts.runs(0, SPAN)
    assert sum(count * (end - start) for start, end, count in runs) == sum(model.values())
    for before, after in pairwise(runs):
        assert before[1] < after[0] or (before[1] == after[0] and before[2] != after[2])


def test_what_a_channel_gives_back_is_one_run_however_much_it_is() -> None:
    counts = DeliveryCounts(None)
    for start in range(0, 1_000_000, 1000):
        counts.add([(start, start + 1000)])
    counts.add([(0, 1_000_000)])
    assert counts.runs(0, 1_000_000) == [(0, 1_000_000, 2)]


def test_runs_are_clipped_to_what_is_on_the_disk_and_forgotten_below_the_floor() -> None:
    counts = DeliveryCounts(None, [(0, 5, 1), (6, 10, 2), (20, 30, 1)])
    assert counts.runs(8, 25) == [(8, 10, 2), (20, 25, 1)]
    assert counts.get(4) == 0
    assert counts.get(29) == 1


def test_counts_of_settled_messages_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_counts, "_PRUNE_MIN", 2)
    counts = DeliveryCounts(None)
    for offset in (3, 5, 9):
        counts.add([(offset, offset + 1)])
    counts.prune(Settlement(4, [(9, 10)]))
    assert counts.runs(0, 100) == [(5, 6, 1)]


def test_of_too_many_runs_those_that_came_back_most_often_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery_counts, "_PRUNE_MIN", 2)
    monkeypatch.setattr(delivery_counts, "RUNS_MAX", 8)
    counts = DeliveryCounts(None, [(100, 101, 7), (200, 201, 9)])
    settlement = Settlement()
    for offset in range(0, 60, 2):
        counts.add([(offset, offset + 1)])
        counts.prune(settlement)
        assert len(counts.runs(0, 1000)) <= 8
    assert (counts.get(100), counts.get(200)) == (7, 9)


def test_too_many_runs_are_forgotten_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a lost consumer had half a million messages, which return in steps of 256 runs."""
    monkeypatch.setattr(delivery_counts, "RUNS_MAX", 16_384)
    counts = DeliveryCounts(None)
    settlement = Settlement()
    most = 0
    for start in range(0, 150 * 512, 512):
        counts.add([(offset, offset + 1) for offset in range(start, start + 512, 2)])
        before = len(counts.runs(0, 100_000))
        counts.prune(settlement)
        after = len(counts.runs(0, 100_000))
        assert before - after <= 2 * PART_RUNS, "half of the runs was forgotten in one piece"
        most = max(most, after)
    assert 8_192 < most <= 16_384
    assert after >= 4_096


def test_of_too_many_runs_the_lower_half_is_forgotten_although_their_counts_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery_counts, "RUNS_MAX", 16_384)
    counts = DeliveryCounts(None, [(2 * n, 2 * n + 1, 2 + n % 10) for n in range(10_000)])
    for start in range(50_000, 70_000, 512):
        counts.add([(each, each + 1) for each in range(start, start + 512, 2)])
        counts.prune(Settlement())
    left = [count for _, _, count in counts.runs(0, 20_000)]
    assert left.count(11) == 1_000, "the highest counts are forgotten too"
    assert left.count(2) < 1_000, "the lowest counts are kept"
