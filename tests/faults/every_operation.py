"""Plays a scenario on a disk that loses power, or fails, in each of its operations."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pytest

from tests.faults.faulty_filesystem import Change, FaultyFileSystem
from tests.faults.power_cuts import CUT_STRIDE, OUTCOMES, STRIDE, crashes, leave, own_root

SEEDS = range(max(1, OUTCOMES // 2))
SECONDS_MAX = 300 * OUTCOMES + 3000 // STRIDE
ERRORS = pytest.mark.parametrize(
    ("error", "failing_operations"),
    [(errno.EIO, 1), (errno.ENOSPC, 1), (errno.ENOSPC, 8), (errno.EIO, None)],
    ids=["EIO", "ENOSPC", "full for a while", "dead"],
)
"""Errors of the disk, and in how many operations it fails; None: in all that follow."""
_OPERATIONS_MAX = 100_000


class Played(Protocol):
    """The clients of a server on a faulty file system, and what they learned."""

    @property
    def filesystem(self) -> FaultyFileSystem:
        """The disk."""

    def now(self) -> int:
        """Return the number of operations that the disk was asked for."""


ScenarioT = TypeVar("ScenarioT", bound=Played)


@dataclass(frozen=True)
class Plan(Generic[ScenarioT]):
    """One scenario and its check.

    Attributes:
        make: Makes the clients of a server with a data directory, a file system and a seed.
        play: Plays the scenario; returns whether the server stopped cleanly at its end.
        check: Starts a server on the directory that a crash in an operation has left, and checks
            the promises. The last argument says whether the disk has failed before.
    """

    make: Callable[[Path, FaultyFileSystem, int], ScenarioT]
    play: Callable[[ScenarioT], bool]
    check: Callable[[Path, ScenarioT, int, bool], None]


def played(plan: Plan[ScenarioT], root: Path, seed: int) -> tuple[ScenarioT, list[Change]]:
    """Play the scenario on a good disk; return it and the changes of the disk."""
    root.mkdir()
    filesystem = FaultyFileSystem(root)
    filesystem.keep_changes()
    scenario = plan.make(root / "data", filesystem, seed)
    assert plan.play(scenario), "a clean stop on a good disk"
    assert filesystem.changes
    return scenario, filesystem.changes


def cut_power_in_each_operation(plan: Plan[ScenarioT], directory: Path, seed: int) -> int:
    """Check what a power cut in each operation, or each third, leaves; return their number."""
    scenario, changes = played(plan, directory / "played", seed)
    count = 0
    for number, outcome, survivors in crashes(changes, seed, stride=CUT_STRIDE):
        with own_root(directory / f"{number} {count}") as root:
            leave(survivors, directory / "played", root)
            try:
                plan.check(root / "data", scenario, number, False)
            except Exception as error:
                error.add_note(
                    f"seed={seed} operation={number} {scenario.filesystem.operations[number]} "
                    f"outcome={outcome}"
                )
                raise
        count += 1
    print(f"power cuts={count} operations={changes[-1].operation + 1} seed={seed}")
    return count


def fail_each_operation(
    plan: Plan[ScenarioT], directory: Path, error: int, failing_operations: int | None
) -> int:
    """Check what an error in each operation leaves; return the number of the last operation."""
    for number in range(error % STRIDE, _OPERATIONS_MAX, STRIDE):
        with own_root(directory / str(number)) as root:
            failing = FaultyFileSystem(root, number, error, failing_operations=failing_operations)
            scenario = plan.make(root / "data", failing, 0)
            try:
                is_clean = plan.play(scenario)
                if number >= len(failing.operations):
                    assert is_clean
                    return number
                failing.end_process()
                plan.check(root / "data", scenario, scenario.now(), True)
            except Exception as failure:
                names = failing.operations[number : number + 1]
                failure.add_note(f"operation={number} {names}")
                raise
    raise AssertionError(f"the scenario has more than {_OPERATIONS_MAX} operations")
