"""Plays a scenario on a disk that loses power, or fails, in its operations: some of each kind.

`tests.faults.power_cuts` says which. The long run takes every operation.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pytest

from tests.faults.faulty_filesystem import Change, FaultyFileSystem
from tests.faults.power_cuts import OUTCOMES, STRIDE, crashes, cut_operations, leave, own_root
from tests.sampled import some_of_each_kind

SEEDS = range(max(1, OUTCOMES // 2))
SECONDS_MAX = 300 * OUTCOMES + 3000 // STRIDE
ERRORS = pytest.mark.parametrize(
    ("error", "failing_operations"),
    [(errno.EIO, 1), (errno.ENOSPC, 1), (errno.ENOSPC, 8), (errno.EIO, None)],
    ids=["EIO", "ENOSPC", "full for a while", "dead"],
)
"""Errors of the disk, and in how many operations it fails; None: in all that follow."""


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
    """Check what a power cut in some operations of each kind leaves; return their number."""
    scenario, changes = played(plan, directory / "played", seed)
    count = 0
    numbers = cut_operations(scenario.filesystem.operations, seed)
    for number, outcome, survivors in crashes(changes, seed, numbers=numbers):
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
    """Check what an error in some operations of each kind leaves; return their number.

    Each kind of failure is in other operations.
    """
    whole, _ = played(plan, directory / "played", 0)
    turn = 7 * error + 5 * (failing_operations or 0)
    operations = whole.filesystem.operations
    numbers = some_of_each_kind(operations, turn, STRIDE)
    for number in numbers:
        with own_root(directory / str(number)) as root:
            failing = FaultyFileSystem(root, number, error, failing_operations=failing_operations)
            scenario = plan.make(root / "data", failing, 0)
            try:
                plan.play(scenario)
                assert failing.operations[: number + 1] == operations[: number + 1]
                failing.end_process()
                plan.check(root / "data", scenario, scenario.now(), True)
            except Exception as failure:
                failure.add_note(f"operation={number} {operations[number]}")
                raise
    return len(numbers)
