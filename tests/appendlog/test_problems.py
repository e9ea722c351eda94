"""Problems of a damaged log: bounded, and those that are left out are counted."""

from __future__ import annotations

from pathlib import Path

from appendlog.checking.problem import PROBLEMS_MAX, Level, Problem, Problems


def test_problems_above_the_bound_are_counted() -> None:
    problems = Problems()
    for number in range(PROBLEMS_MAX + 3):
        problems.add(Problem(next(iter(Level)), "chunk", Path("log"), str(number)))
    assert [each.text for each in problems.kept] == [str(each) for each in range(PROBLEMS_MAX)]
    assert problems.left_out == 3
