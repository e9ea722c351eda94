"""Which offsets of a queue are settled."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import offsets.settlement as settlement_module
from offsets.bit_pages import bit_runs
from offsets.settlement import Settlement

PAGE = 1024
# Small steps, page borders and whole pages: where the representations meet.
offsets = (
    st.integers(0, 40)
    | st.integers(0, 4 * PAGE)
    | st.sampled_from(
        [page * PAGE + step for page in range(4) for step in (-1, 0, 1) if page * PAGE + step >= 0]
    )
)
ranges = st.tuples(offsets, offsets).map(lambda pair: (min(pair), max(pair)))
END = 4 * PAGE


def runs_of(numbers: set[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return runs


class ModelSettlement:
    """The obvious set, slow and right."""

    def __init__(self) -> None:
        self.settled: set[int] = set()
        self.floor = 0

    def settle(self, start: int, end: int) -> int:
        before = len(self.settled)
        self.settled.update(range(start, end))
        while self.floor in self.settled:
            self.floor += 1
        return len(self.settled) - before

    def above(self) -> set[int]:
        return {offset for offset in self.settled if offset > self.floor}


class SettlementMachine(RuleBasedStateMachine):
    """Any settles in any order, against the set."""

    def __init__(self) -> None:
        super().__init__()
        self.settlement = Settlement()
        self.model = ModelSettlement()

    def _settle(self, start: int, end: int) -> None:
        assert self.settlement.settle(start, end) == self.model.settle(start, end)

    @rule(settled=ranges)
    def settle_a_range(self, settled: tuple[int, int]) -> None:
        self._settle(*settled)

    @rule(offset=offsets)
    def settle_one(self, offset: int) -> None:
        self._settle(offset, offset + 1)

    @rule(count=st.integers(0, 3 * PAGE))
    def settle_at_the_floor(self, count: int) -> None:
        floor = self.settlement.ack_floor
        self._settle(floor, max(floor, min(floor + count, END)))

    @rule(below=st.integers(0, 50), count=st.integers(0, 100))
    def settle_across_the_floor(self, below: int, count: int) -> None:
        floor = self.settlement.ack_floor
        self._settle(max(floor - below, 0), max(floor, min(floor + count, END)))

    @precondition(lambda self: self.settlement.settled_above_floor)
    @rule()
    def settle_the_first_gap(self) -> None:
        self._settle(self.settlement.ack_floor, self.settlement.ranges()[0][0])

    @rule(page=st.integers(0, 3))
    def settle_every_second_of_a_page(self, page: int) -> None:
        for offset in range(page * PAGE, (page + 1) * PAGE, 2):
            self._settle(offset, offset + 1)

    @rule(window=ranges)
    def ask_for_unsettled_ranges(self, window: tuple[int, int]) -> None:
        expected = runs_of(set(range(*window)) - self.model.settled)
        assert self.settlement.unsettled_ranges(*window) == expected

    @rule(end=offsets)
    def ask_for_ranges_below(self, end: int) -> None:
        expected = runs_of({offset for offset in self.model.above() if offset < end})
        assert self.settlement.ranges(end) == expected

    @rule(offset=offsets)
    def ask_for_one(self, offset: int) -> None:
        assert self.settlement.is_settled(offset) == (offset in self.model.settled)

    @rule()
    def restore_from_its_own_ranges(self) -> None:
        self.settlement = Settlement(self.settlement.ack_floor, self.settlement.ranges())

    @invariant()
    def agrees_with_the_set(self) -> None:
        assert self.settlement.ack_floor == self.model.floor
        assert self.settlement.settled_above_floor == len(self.model.settled) - self.model.floor

    @rule()
    def ask_for_all_ranges(self) -> None:
        assert self.settlement.ranges() == runs_of(self.model.above())


TestSettlementMachine = SettlementMachine.TestCase


def test_a_new_settlement_has_settled_nothing() -> None:
    settlement = Settlement()
    assert (settlement.ack_floor, settlement.settled_above_floor) == (0, 0)
    assert settlement.ranges() == []
    assert settlement.unsettled_ranges(0, 10) == [(0, 10)]


def test_settling_at_the_floor_moves_it_and_keeps_nothing_above() -> None:
    settlement = Settlement(100)
    assert settlement.settle(100, 200) == 100
    assert settlement.ack_floor == 200
    assert settlement.ranges() == []


def test_an_ack_above_the_floor_waits_until_the_gap_closes() -> None:
    settlement = Settlement()
    assert settlement.settle(5, 8) == 3
    assert (settlement.ack_floor, settlement.ranges()) == (0, [(5, 8)])
    assert settlement.settle(0, 5) == 5
    assert (settlement.ack_floor, settlement.ranges()) == (8, [])


def test_settling_twice_counts_once() -> None:
    settlement = Settlement()
    assert settlement.settle(3, 6) == 3
    assert settlement.settle(2, 7) == 2
    assert settlement.settle(2, 7) == 0
    assert settlement.settle(0, 7) == 2
    assert settlement.settle(0, 7) == 0


def test_an_empty_range_changes_nothing_wherever_it_lies() -> None:
    settlement = Settlement(10, [(20, 30)])
    for offset in (0, 10, 15, 20, 25, 1000):
        assert settlement.settle(offset, offset) == 0
    assert (settlement.ack_floor, settlement.ranges()) == (10, [(20, 30)])


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (-2, -1), (5, 4)])
def test_a_range_that_is_none_is_our_own_mistake(start: int, end: int) -> None:
    with pytest.raises(AssertionError):
        Settlement().settle(start, end)


def test_a_run_over_page_borders_is_one_range() -> None:
    settlement = Settlement()
    settlement.settle(10, 10 * PAGE + 10)
    settlement.settle(10 * PAGE + 11, 20 * PAGE)
    assert settlement.ranges() == [(10, 10 * PAGE + 10), (10 * PAGE + 11, 20 * PAGE)]
    assert settlement.unsettled_ranges(0, 30 * PAGE) == [
        (0, 10),
        (10 * PAGE + 10, 10 * PAGE + 11),
        (20 * PAGE, 30 * PAGE),
    ]


def test_ranges_are_clipped_to_what_is_on_the_disk() -> None:
    settlement = Settlement(5, [(10, 20), (30, 40)])
    assert settlement.ranges(35) == [(10, 20), (30, 35)]
    assert settlement.ranges(30) == [(10, 20)]
    assert settlement.ranges(0) == []


def test_a_checkpoints_ranges_may_overlap_and_come_in_any_order() -> None:
    settlement = Settlement(5, [(30, 40), (8, 12), (10, 31), (2, 6)])
    assert (settlement.ack_floor, settlement.ranges()) == (6, [(8, 40)])


def test_ranges_of_ten_to_the_twelfth_are_as_quick_as_short_ones() -> None:
    far = 10**12
    settlement = Settlement()
    assert settlement.settle(3, far) == far - 3
    assert settlement.settle(far + 5, 2 * far) == far - 5
    assert settlement.unsettled_ranges(0, 2 * far) == [(0, 3), (far, far + 5)]
    assert settlement.settle(0, 2 * far) == 8
    assert (settlement.ack_floor, settlement.settled_above_floor) == (2 * far, 0)


def test_a_look_at_one_offset_does_not_go_through_the_holes_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settlement = Settlement()
    for offset in range(1, 1024, 2):
        settlement.settle(offset, offset + 1)
    looked_at = 0

    def count(bits: int, offset: int) -> Iterator[tuple[int, int]]:
        nonlocal looked_at
        for run in bit_runs(bits, offset):
            looked_at += 1
            yield run

    monkeypatch.setattr(settlement_module, "bit_runs", count)

    assert settlement.unsettled_ranges(500, 503) == [(500, 501), (502, 503)]
    assert looked_at == 1


def test_a_long_range_swallows_the_many_pages_below_it() -> None:
    settlement = Settlement()
    for page in range(1, 200):
        settlement.settle(page * PAGE + page, page * PAGE + page + 2)
    assert settlement.settle(1, 10**9) == 10**9 - 1 - 2 * 199
    assert settlement.ranges() == [(1, 10**9)]


def test_acks_in_random_order_leave_nothing_behind() -> None:
    order = list(range(50_000))
    random.Random(7).shuffle(order)
    settlement = Settlement()
    assert sum(settlement.settle(offset, offset + 1) for offset in order) == len(order)
    assert (settlement.ack_floor, settlement.settled_above_floor) == (50_000, 0)
    assert settlement.ranges() == []


def test_a_million_acks_over_one_gap_take_little_memory() -> None:
    settlement = Settlement()
    for start in range(1, 1_000_001, 100):
        settlement.settle(start, start + 100)
    # One page that holds the gap, one at the end, and a single run of full pages between them.
    assert len(settlement._pages) == 2
    assert len(settlement._full._starts) == 1


@pytest.mark.parametrize("order", [range(1, 50), range(49, 0, -1)], ids=["up", "down"])
def test_full_pages_that_touch_become_one_run(order: range) -> None:
    settlement = Settlement()
    for page in order:
        settlement.settle(page * PAGE, (page + 1) * PAGE)
    assert settlement.ranges() == [(PAGE, 50 * PAGE)]
    assert settlement._full.between(0, None) == [(1, 50)]


@given(st.lists(ranges, max_size=20), ranges)
def test_settled_and_unsettled_ranges_share_out_every_window(
    settles: list[tuple[int, int]], window: tuple[int, int]
) -> None:
    settlement = Settlement()
    for start, end in settles:
        settlement.settle(start, end)
    unsettled = settlement.unsettled_ranges(*window)
    for start, end in unsettled:
        assert window[0] <= start < end <= window[1]
        assert not settlement.is_settled(start)
        assert not settlement.is_settled(end - 1)
    settled_count = sum(settlement.is_settled(offset) for offset in range(*window))
    assert settled_count + sum(end - start for start, end in unsettled) == window[1] - window[0]


@pytest.mark.parametrize("number", range(30))
def test_a_snapshot_tells_what_is_live_in_any_part_of_it(number: int) -> None:
    seed = random.Random(number)
    settlement = Settlement()
    for _ in range(seed.randint(0, 60)):
        start = seed.randint(0, 9_000)
        settlement.settle(start, start + seed.choice([1, 3, 100, 3_000]))
    end = seed.randint(1, 13_000)
    snapshot = settlement.snapshot(end)
    for _ in range(20):
        low, high = sorted((seed.randint(0, end), seed.randint(0, end)))
        live = settlement.unsettled_ranges(low, high)
        assert snapshot.live_ranges(low, high) == live
        count = high - low - sum(stop - start for start, stop in live)
        assert snapshot.settled_count(low, high) == count
