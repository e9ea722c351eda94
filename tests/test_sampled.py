"""A sample has every kind, and the cases of a test together have everything."""

from itertools import chain

import pytest

from tests import sampled
from tests.sampled import some_items, some_of_each_kind

KINDS = ["write"] * 20 + ["rename"] + ["write", "sync"] * 7


@pytest.fixture(autouse=True)
def _takes_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "TAKES_ALL", False)


@pytest.mark.parametrize("turn", range(9))
def test_it_has_every_kind_in_order(turn: int) -> None:
    chosen = some_of_each_kind(KINDS, turn, 5)
    assert chosen == sorted(set(chosen))
    assert {KINDS[number] for number in chosen} == set(KINDS)
    assert len(chosen) < len(KINDS) // 2


def test_as_many_cases_as_the_stride_take_everything() -> None:
    taken = chain.from_iterable(some_of_each_kind(KINDS, turn, 5) for turn in range(5))
    assert sorted(set(taken)) == list(range(len(KINDS)))


def test_the_long_run_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "TAKES_ALL", True)
    assert some_of_each_kind(KINDS, 3, 5) == list(range(len(KINDS)))


def test_items_are_chosen_by_their_kinds() -> None:
    assert some_items("abcde", "xxyyy", 1, 3) == ["b", "d"]
