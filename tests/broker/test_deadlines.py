"""Deadlines: what is due, wherever it is, each message once, and again when it comes back."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp_server.broker.rules import deadlines as deadlines_module
from amqp_server.broker.rules.deadlines import DUE_RUNS_MAX, PAGE_RUNS, Deadlines
from offsets.settlement import Settlement


def test_a_queue_without_deadlines_has_nothing_due() -> None:
    deadlines = Deadlines()

    assert (len(deadlines), deadlines.next_ms, deadlines.take_due(1 << 60)) == (0, None, [])


def test_messages_published_together_are_one_run() -> None:
    deadlines = Deadlines()
    for offset in range(1_000):
        deadlines.add(offset, offset + 1, 50)

    assert len(deadlines) == 1
    assert deadlines.take_due(50) == [(0, 1_000)]


def test_the_soonest_deadline_comes_first_wherever_it_is() -> None:
    deadlines = Deadlines()
    deadlines.add(0, 5, 300)
    deadlines.add(5, 6, 100)
    deadlines.add(6, 9, 200)

    assert deadlines.next_ms == 100
    assert deadlines.take_due(99) == []
    assert deadlines.take_due(250) == [(5, 6), (6, 9)]
    assert deadlines.next_ms == 300


def test_what_could_not_expire_when_it_was_due_is_due_when_it_comes_back() -> None:
    deadlines = Deadlines()
    deadlines.add(0, 10, 100)
    deadlines.add(10, 20, 500)
    deadlines.take_due(100)

    deadlines.rearm(7, 12)

    assert deadlines.take_due(100) == [(7, 10)]
    assert deadlines.take_due(500) == [(10, 20)], "its own deadline had not come yet"


def test_what_comes_back_before_its_deadline_is_due_once() -> None:
    deadlines = Deadlines()
    deadlines.add(0, 10, 100)
    deadlines.take_due(50)
    deadlines.rearm(0, 10)

    assert deadlines.take_due(100) == [(0, 10)]
    assert deadlines.take_due(200) == []


def test_runs_of_settled_messages_are_forgotten() -> None:
    deadlines = Deadlines()
    settlement = Settlement()
    for offset in range(10_000):
        deadlines.add(offset, offset + 1, 1_000_000 + offset)
        settlement.settle(offset, offset + 1)
        deadlines.prune(settlement)

    assert len(deadlines) <= 1_024


def test_a_queue_that_only_fills_up_is_not_searched_for_settled_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deadlines = Deadlines()
    settlement = Settlement()
    monkeypatch.setattr(Settlement, "is_settled", None)
    monkeypatch.setattr(Settlement, "unsettled_ranges", None)
    for offset in range(10_000):
        deadlines.add(offset, offset + 1, 1_000_000 + offset)
        deadlines.prune(settlement)

    assert len(deadlines) == 10_000


def test_settled_messages_are_searched_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines, settlement = Deadlines(), Settlement()
    for offset in range(5 * PAGE_RUNS):
        deadlines.add(offset, offset + 1, 1_000 + offset % 7)
    settlement.settle(1, 4 * PAGE_RUNS)
    asked: list[int] = []
    is_settled = Settlement.is_settled

    def noted(settlement: Settlement, offset: int) -> bool:
        asked.append(offset)
        return is_settled(settlement, offset)

    monkeypatch.setattr(Settlement, "is_settled", noted)
    most = pages = 0
    while deadlines.prune(settlement):
        most, pages = max(most, len(asked)), pages + 1
        asked.clear()

    assert most <= 2 * PAGE_RUNS, "each run is in a page and in its heap"
    assert pages == 5
    assert len(deadlines) == PAGE_RUNS + 1
    due: list[tuple[int, int]] = []
    while some := deadlines.take_due(2_000):
        due += some
    assert sorted(due) == [(at, at + 1) for at in (0, *range(4 * PAGE_RUNS, 5 * PAGE_RUNS))]
    assert deadlines.next_ms is None


def test_the_next_deadline_of_a_page_is_known_when_the_soonest_one_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines_module, "_PRUNE_MIN", 1)
    deadlines, settlement = Deadlines(), Settlement()
    for offset, deadline_ms in enumerate([10, 20, 30]):
        deadlines.add(offset, offset + 1, deadline_ms)
    settlement.settle(0, 1)
    settlement.settle(2, 3)
    while deadlines.prune(settlement):
        pass

    assert deadlines.next_ms == 20
    assert deadlines.take_due(30)[0] == (1, 2)


def test_deadlines_that_come_ever_sooner_are_found_and_leave_no_entries() -> None:
    deadlines = Deadlines()
    count = 3 * PAGE_RUNS
    for offset in range(count):
        deadlines.add(offset, offset + 1, 10_000 - offset)

    assert len(deadlines._soonest) < 200, "pages, not runs"
    due: list[tuple[int, int]] = []
    while some := deadlines.take_due(10_000):
        due += some
    assert due == [(offset, offset + 1) for offset in reversed(range(count))]


def test_many_that_are_due_at_once_are_taken_a_part_at_a_time_and_each_once() -> None:
    deadlines = Deadlines()
    count = 2 * DUE_RUNS_MAX + 1
    for offset in range(count):
        deadlines.add(offset, offset + 1, 1_000 + offset % 2)

    parts = [deadlines.take_due(2_000) for _ in range(4)]
    assert [len(part) for part in parts] == [DUE_RUNS_MAX, DUE_RUNS_MAX, 1, 0]
    assert sorted(start for part in parts for start, _ in part) == list(range(count))


def test_neighbours_that_are_due_are_one_range_a_page() -> None:
    deadlines = Deadlines()
    for offset in range(2 * PAGE_RUNS):
        deadlines.add(offset, offset + 1, 1_000 + offset % 4)

    everything = 2 * PAGE_RUNS
    assert deadlines.take_due_below(everything, 999) == []
    assert deadlines.take_due_below(everything, 2_000) == [(0, PAGE_RUNS)]
    assert deadlines.take_due_below(everything, 2_000) == [(PAGE_RUNS, 2 * PAGE_RUNS)]
    assert deadlines.take_due_below(everything, 2_000) == []
    assert (len(deadlines), deadlines.next_ms) == (0, None)


def test_a_page_with_gaps_gives_a_part_of_its_ranges_at_a_time() -> None:
    deadlines = Deadlines()
    count = 2 * (DUE_RUNS_MAX + 1)
    for offset in range(count):
        deadlines.add(offset, offset + 1, 1_000 if offset % 2 else 5_000)

    parts = [deadlines.take_due_below(count, 2_000) for _ in range(3)]
    assert [len(part) for part in parts] == [DUE_RUNS_MAX, 1, 0]
    assert [start for part in parts for start, _ in part] == list(range(1, count, 2))
    assert (len(deadlines), deadlines.next_ms) == (count // 2, 5_000)


def test_what_lies_above_the_end_stays_due_and_hides_nothing_below() -> None:
    deadlines = Deadlines()
    for offset in range(3 * PAGE_RUNS):
        deadlines.add(offset, offset + 1, 10_000 - offset)

    end = PAGE_RUNS + 5
    below: list[tuple[int, int]] = []
    while some := deadlines.take_due_below(end, 10_000):
        below += some
    assert below == [(PAGE_RUNS, end), (0, PAGE_RUNS)], "the page with the soonest one first"
    assert deadlines.next_ms == 10_000 - 3 * PAGE_RUNS + 1
    above: list[tuple[int, int]] = []
    while some := deadlines.take_due_below(3 * PAGE_RUNS, 10_000):
        above += some
    assert above == [(2 * PAGE_RUNS, 3 * PAGE_RUNS), (end, 2 * PAGE_RUNS)]


def test_what_was_never_due_is_not_due_twice_though_the_clock_is_younger() -> None:
    deadlines = Deadlines()
    deadlines.add(0, 1, -10)
    deadlines.add(1, 2, 5)
    deadlines.rearm(0, 1)
    assert deadlines.take_due(-10) == [(0, 1)]
    assert deadlines.next_ms == 5


def test_the_deadlines_of_older_messages_join_those_of_newer_ones() -> None:
    newer, older = Deadlines(), Deadlines()
    older.add(0, 10, 200)
    newer.add(10, 20, 100)
    newer.add(20, 30, 300)
    newer.add(30, 40, 400)

    newer.put_before(older)

    assert newer.next_ms == 100
    due = [(10, 20), (0, 10), (20, 30), (30, 40)]
    assert newer.take_due(400) == due
    newer.rearm(0, 40)
    assert newer.take_due(400) == due, "each can be due again"


class DeadlinesMachine(RuleBasedStateMachine):
    """Messages wait, are held by somebody, or are gone; what waits and is due must be found."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines = Deadlines()
        self.settlement = Settlement()
        self.deadline_of: dict[int, int] = {}
        self.waiting: set[int] = set()
        self.held: set[int] = set()
        # The clock may be younger than a message that was recovered.
        self.now_ms = -50

    @rule(counts=st.lists(st.integers(1, 4), min_size=1, max_size=3), lifetime=st.integers(0, 20))
    def publish(self, counts: list[int], lifetime: int) -> None:
        for count in counts:
            start = len(self.deadline_of)
            self.deadlines.add(start, start + count, self.now_ms + lifetime)
            for offset in range(start, start + count):
                self.deadline_of[offset] = self.now_ms + lifetime
                self.waiting.add(offset)

    @precondition(lambda self: self.waiting)
    @rule(share=st.floats(0, 1))
    def hold(self, share: float) -> None:
        offset = sorted(self.waiting)[int(share * (len(self.waiting) - 1))]
        self.waiting.remove(offset)
        self.held.add(offset)

    @precondition(lambda self: self.held)
    @rule(share=st.floats(0, 1))
    def requeue(self, share: float) -> None:
        offset = sorted(self.held)[int(share * (len(self.held) - 1))]
        self.held.remove(offset)
        self.waiting.add(offset)
        self.deadlines.rearm(offset, offset + 1)

    @precondition(lambda self: self.held)
    @rule(share=st.floats(0, 1))
    def settle(self, share: float) -> None:
        offset = sorted(self.held)[int(share * (len(self.held) - 1))]
        self.held.remove(offset)
        self.settlement.settle(offset, offset + 1)
        self.deadlines.prune(self.settlement)

    @rule(passed=st.integers(0, 15))
    def expire(self, passed: int) -> None:
        self.now_ms += passed
        for start, end in self.deadlines.take_due(self.now_ms):
            for offset in self.waiting & set(range(start, end)):
                assert self.deadline_of[offset] <= self.now_ms
                self.waiting.remove(offset)
                self.settlement.settle(offset, offset + 1)
        assert all(self.deadline_of[offset] > self.now_ms for offset in self.waiting)

    @rule(passed=st.integers(0, 15), share=st.floats(0, 1))
    def expire_below(self, passed: int, share: float) -> None:
        """What lies above was not offered to consumers yet."""
        self.now_ms += passed
        end = round(share * len(self.deadline_of))
        while ranges := self.deadlines.take_due_below(end, self.now_ms):
            starts = [start for start, _ in ranges]
            assert starts == sorted(starts)
            for start, stop in ranges:
                assert start < end
                for offset in self.waiting & set(range(start, min(stop, end))):
                    assert self.deadline_of[offset] <= self.now_ms
                    self.waiting.remove(offset)
                    self.settlement.settle(offset, offset + 1)
                if stop > end:
                    self.deadlines.rearm(end, stop)
        assert all(
            self.deadline_of[offset] > self.now_ms for offset in self.waiting if offset < end
        )

    @invariant()
    def the_armed_runs_are_those_of_the_heaps(self) -> None:
        in_heaps = sum(len(page.heap) for page in self.deadlines._pages)
        assert len(self.deadlines) == in_heaps + (self.deadlines._open is not None)

    @invariant()
    def the_next_deadline_is_not_later_than_any(self) -> None:
        soonest = min((self.deadline_of[offset] for offset in self.waiting), default=None)
        if soonest is not None:
            assert self.deadlines.next_ms is not None
            assert self.deadlines.next_ms <= soonest


TestDeadlines = DeadlinesMachine.TestCase


class SmallPagesMachine(DeadlinesMachine):
    """Pages of two runs that are searched after each settled message."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(deadlines_module, "PAGE_RUNS", 2)
        self._patch.setattr(deadlines_module, "_PRUNE_MIN", 1)
        self._patch.setattr(deadlines_module, "_SPARE_ENTRIES", 0)

    @rule()
    def hold_all(self) -> None:
        self.held |= self.waiting
        self.waiting.clear()

    @precondition(lambda self: self.held)
    @rule()
    def requeue_all(self) -> None:
        """Like a lost consumer: one call for all, over several pages."""
        self.waiting |= self.held
        self.held.clear()
        self.deadlines.rearm(0, len(self.deadline_of))

    @rule()
    def put_before(self) -> None:
        """Newer messages came while these were loaded."""
        older, self.deadlines = self.deadlines, Deadlines()
        self.deadlines.take_due(self.now_ms)
        self.deadlines.put_before(older)

    def teardown(self) -> None:
        self._patch.undo()


TestDeadlinesInSmallPages = SmallPagesMachine.TestCase


def soonest(deadlines: Deadlines, runs_max: int, settlement: Settlement) -> list[tuple[int, ...]]:
    steps = deadlines.soonest_in_steps(runs_max, settlement)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return list(end.value)


def test_the_soonest_are_those_of_all_pages_without_what_is_settled() -> None:
    deadlines, settlement = Deadlines(), Settlement()
    for offset in range(3 * PAGE_RUNS):
        deadlines.add(offset, offset + 1, (offset * 7919) % 10_007)
    expected = sorted(
        ((offset * 7919) % 10_007, offset, offset + 1) for offset in range(3 * PAGE_RUNS)
    )
    assert soonest(deadlines, 50, settlement) == expected[:50]
    gone = [each for each in expected[:10] if each[1] < 2 * PAGE_RUNS]
    for _, start, end in gone:
        settlement.settle(start, end)
    assert (
        soonest(deadlines, 50, settlement)
        == [each for each in expected[:60] if each not in gone][:50]
    )
    assert soonest(Deadlines(), 5, settlement) == []
