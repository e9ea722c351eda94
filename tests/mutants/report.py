"""What a run says at its end: how many were killed in each room, and what survived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.mutants.one_line_bugs import Bug
from tests.mutants.results import KILLED, OUTCOMES, SURVIVED, TIMEOUT, Results
from tests.mutants.rooms import Room


def report(drawn: Sequence[tuple[Room, Bug]], results: Results) -> tuple[list[str], float]:
    """Return the lines of the report, and how many in a hundred were killed or timed out."""
    counts: dict[str, Counter[str]] = {}
    survivors: list[str] = []
    for room, bug in drawn:
        result = results.of(bug)
        if result is None:
            continue
        counts.setdefault(room.name, Counter())[result.outcome] += 1
        if result.outcome == SURVIVED:
            tests = f"{result.tests} tests" if result.tests else "no test runs it"
            survivors.append(f"{bug.path}:{bug.line}: {bug.before} -> {bug.after}  # {tests}")
    total: Counter[str] = sum(counts.values(), Counter())
    done = total.total()
    percent = 100 * (total[KILLED] + total[TIMEOUT]) / done if done else 0.0
    lines = [f"{'room':32}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)]
    for name, of_room in [*counts.items(), ("all", total)]:
        lines.append(f"{name:32}" + "".join(f"{of_room[outcome]:10}" for outcome in OUTCOMES))
    lines.append(f"{percent:.1f} % of {done} killed")
    if survivors:
        lines += ["survivors:", *(f"  {line}" for line in sorted(survivors))]
    return lines, percent
