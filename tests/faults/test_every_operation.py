"""The whole server on a disk that fails, or loses power, at each operation of a scenario."""

from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.durable_scenario import play, play_unsynced_commit
from tests.faults.every_operation import (
    ERRORS,
    SECONDS_MAX,
    SEEDS,
    Plan,
    cut_power_in_each_operation,
    fail_each_operation,
    played,
)
from tests.faults.faulty_filesystem import Change, FaultyFileSystem
from tests.faults.history import NEVER
from tests.faults.power_cuts import crashes, leave, own_root
from tests.faults.scenario import Scenario
from tests.sampled import some_of_each_kind

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(SECONDS_MAX)]


def check_promises(storage_path: Path, scenario: Scenario, at: int, has_failed: bool) -> None:
    check(storage_path, scenario.history, at, may_be_marked=has_failed)


PLAN = Plan(Scenario, play, check_promises)
OUTCOME_KINDS = 4
"""Of a power cut: all is lost that was not synced, nothing is, and two in between."""


def is_redo_file(change: Change) -> bool:
    """Tell whether the name that a change is about is that of a file of the redo journal."""
    (path,) = change.arguments
    return isinstance(path, Path) and path.parent.name == "transactions"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_in_any_operation_breaks_no_promise(tmp_path: Path, seed: int) -> None:
    assert cut_power_in_each_operation(PLAN, tmp_path, seed) > 80


def test_a_power_cut_takes_no_part_of_a_commit_to_a_queue_that_does_not_sync(
    tmp_path: Path,
) -> None:
    """commit-ok promises the whole of it, whatever the durability of its queues.

    Cut in every third operation of each kind, in all of them in the long run.
    """
    plan = Plan(Scenario, play_unsynced_commit, check_promises)
    scenario, changes = played(plan, tmp_path / "played", 0)
    (together,) = scenario.history.transactions
    assert all(placed.sure != NEVER for placed in together.coming), "no commit-ok came"
    removed = [each.operation for each in changes if each.name == "remove" and is_redo_file(each)]
    assert removed, "the redo file was kept to the end"
    operations = scenario.filesystem.operations[: changes[-1].operation + 1]
    kinds = operations[together.begun :]
    numbers = [together.begun + each for each in some_of_each_kind(kinds, 0, 3)]
    assert set(removed) & set(numbers), "no cut while the redo file goes"
    for number, outcome, survivors in crashes(changes, 0, OUTCOME_KINDS, numbers):
        with own_root(tmp_path / f"{number} {outcome}") as root:
            leave(survivors, tmp_path / "played", root)
            try:
                check(root / "data", scenario.history, number)
            except AssertionError as error:
                error.add_note(f"operation={number} outcome={outcome} redo file gone at {removed}")
                raise


@ERRORS
def test_an_error_at_any_operation_breaks_no_promise(
    tmp_path: Path, error: int, failing_operations: int | None
) -> None:
    assert fail_each_operation(PLAN, tmp_path, error, failing_operations) > 12


def test_pytest_keeps_only_the_text_of_log_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An error holds its traceback, and so its disk: gigabytes over a whole scenario."""
    failing = FaultyFileSystem(tmp_path, 120, failing_operations=None)
    play(Scenario(tmp_path / "data", failing))
    assert "journal failed" in caplog.text
    assert not any(record.args or record.exc_info for record in caplog.records)


def test_the_scenario_has_the_same_operations_each_time(tmp_path: Path) -> None:
    first, _ = played(PLAN, tmp_path / "first", 3)
    second, _ = played(PLAN, tmp_path / "second", 3)
    assert first.filesystem.operations == second.filesystem.operations
    other, _ = played(PLAN, tmp_path / "other", 4)
    assert other.filesystem.operations != first.filesystem.operations


def test_a_clean_stop_keeps_everything_unchanged(tmp_path: Path) -> None:
    scenario, _ = played(PLAN, tmp_path / "played", 0)
    assert len(list((tmp_path / "played").rglob("*.log"))) > 8, "no segment was rolled"
    assert scenario.reclaimed["pinned"] >= 2, "almost nothing was compacted"
    assert scenario.reclaimed["kept"], "retention removed no settled message"
    assert scenario.reclaimed["forced"], "retention removed no unsettled message"
    check(tmp_path / "played" / "data", scenario.history, scenario.now(), is_exact=True)
