"""Runs in chunks against one sorted dictionary, with chunks so small that all of them change."""

from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from amqp_server.broker import sorted_runs
from amqp_server.broker.sorted_runs import SortedRuns

keys = st.integers(0, 120)


class SortedRunsMachine(RuleBasedStateMachine):
    """Every run says which key it was put at."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(sorted_runs, "CHUNK_MAX", 4)
        self.runs: SortedRuns[str] = SortedRuns()
        self.model: dict[int, str] = {}
        self.put_count = 0

    def teardown(self) -> None:
        self.patch.undo()

    def _new(self, key: int) -> str:
        self.put_count += 1
        return f"{key} put {self.put_count}"

    def _within(self, start: int, end: int) -> list[int]:
        return [key for key in sorted(self.model) if start <= key < end]

    @rule(key=keys)
    def put(self, key: int) -> None:
        if key in self.model:
            self.runs.remove(key)
            del self.model[key]
        else:
            self.model[key] = self._new(key)
            self.runs.insert(key, self.model[key])

    @rule(start=keys, step=st.integers(1, 3))
    def put_many(self, start: int, step: int) -> None:
        for key in range(start, start + 12 * step, step):
            if key not in self.model:
                self.model[key] = self._new(key)
                self.runs.insert(key, self.model[key])

    @rule(key=keys, room=st.integers(0, 30))
    def move_up(self, key: int, room: int) -> None:
        present = self._within(key, 1000)
        if not present:
            return
        old = present[0]
        new = min(old + room, (present[1] if len(present) > 1 else 1000) - 1)
        del self.model[old]
        self.model[new] = self._new(new)
        self.runs.update(old, new, self.model[new])

    @rule(start=keys, length=st.integers(0, 60), count=st.integers(0, 20))
    def replace(self, start: int, length: int, count: int) -> None:
        removed = self._within(start, start + length)
        new = list(range(start, start + min(count, length)))
        assert self.runs.replace(start, start + length, new, [f"new {key}" for key in new]) == [
            self.model.pop(key) for key in removed
        ]
        self.model |= {key: f"new {key}" for key in new}

    @rule(key=keys)
    def look_around(self, key: int) -> None:
        before, after = self._within(-1, key + 1), self._within(key + 1, 1000)
        assert self.runs.neighbours(key) == (
            self.model[before[-1]] if before else None,
            self.model[after[0]] if after else None,
        )

    @rule(start=keys, length=st.integers(0, 60))
    def look_between(self, start: int, length: int) -> None:
        expected = [self.model[key] for key in self._within(start, start + length)]
        assert self.runs.between(start, start + length) == expected
        assert self.runs.count_between(start, start + length) == len(expected)

    @rule()
    def take_all(self) -> None:
        assert self.runs.take_all() == [self.model[key] for key in sorted(self.model)]
        self.model.clear()

    @invariant()
    def all_are_there_in_order(self) -> None:
        expected = [self.model[key] for key in sorted(self.model)]
        assert list(self.runs) == expected
        assert len(self.runs) == len(expected)
        assert self.runs.first() == (expected[0] if expected else None)
        assert self.runs.last() == (expected[-1] if expected else None)


TestSortedRunsMachine = SortedRunsMachine.TestCase


def test_a_change_moves_one_chunk_however_many_runs_there_are() -> None:
    runs: SortedRuns[int] = SortedRuns()
    for key in range(0, 40_000, 2):
        runs.append(key, key)
    for key in range(1, 40_000, 2):
        runs.insert(key, key)

    assert list(runs) == list(range(40_000))
    assert max(map(len, runs._keys)) <= sorted_runs.CHUNK_MAX
    assert len(runs._keys) <= 4 * 40_000 / sorted_runs.CHUNK_MAX
    assert all(one[-1] < other[0] for one, other in pairwise(runs._keys))
