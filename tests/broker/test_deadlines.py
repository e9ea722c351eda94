"""Deadlines: what is due, wherever it is, each message once, and again when it comes back."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp_server.broker.rules.deadlines import DUE_RUNS_MAX, Deadlines
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


def test_many_that_are_due_at_once_are_taken_a_part_at_a_time_and_each_once() -> None:
    deadlines = Deadlines()
    count = 2 * DUE_RUNS_MAX + 1
    for offset in range(count):
        deadlines.add(offset, offset + 1, 1_000 + offset % 2)

    parts = [deadlines.take_due(2_000) for _ in range(4)]
    assert [len(part) for part in parts] == [DUE_RUNS_MAX, DUE_RUNS_MAX, 1, 0]
    assert sorted(start for part in parts for start, _ in part) == list(range(count))


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

    @invariant()
    def the_next_deadline_is_not_later_than_any(self) -> None:
        soonest = min((self.deadline_of[offset] for offset in self.waiting), default=None)
        if soonest is not None:
            assert self.deadlines.next_ms is not None
            assert self.deadlines.next_ms <= soonest


TestDeadlines = DeadlinesMachine.TestCase
