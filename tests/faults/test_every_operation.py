"""The whole server on a disk that fails, or loses power, at each operation of a scenario."""

from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.durable_scenario import play
from tests.faults.every_operation import (
    ERRORS,
    SECONDS_MAX,
    SEEDS,
    Plan,
    cut_power_in_each_operation,
    fail_each_operation,
    played,
)
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.faults.scenario import Scenario

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(SECONDS_MAX)]


def check_promises(storage_path: Path, scenario: Scenario, at: int, has_failed: bool) -> None:
    check(storage_path, scenario.history, at, may_be_marked=has_failed)


PLAN = Plan(Scenario, play, check_promises)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_in_any_operation_breaks_no_promise(tmp_path: Path, seed: int) -> None:
    assert cut_power_in_each_operation(PLAN, tmp_path, seed) > 150


@ERRORS
def test_an_error_at_any_operation_breaks_no_promise(
    tmp_path: Path, error: int, failing_operations: int | None
) -> None:
    assert fail_each_operation(PLAN, tmp_path, error, failing_operations) > 150


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
