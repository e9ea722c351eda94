"""A stream and its groups on a disk that fails, or loses power, at each operation."""

from pathlib import Path

import pytest

from tests.faults.every_operation import (
    ERRORS,
    SECONDS_MAX,
    SEEDS,
    Plan,
    cut_power_in_each_operation,
    fail_each_operation,
    played,
)
from tests.faults.stream_scenario import StreamScenario, check, play

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(SECONDS_MAX)]


def check_promises(storage_path: Path, scenario: StreamScenario, at: int, _failed: bool) -> None:
    check(storage_path, scenario.history, at)


PLAN = Plan(StreamScenario, play, check_promises)


def test_a_clean_stop_keeps_streams_and_groups(tmp_path: Path) -> None:
    scenario, _ = played(PLAN, tmp_path / "played", 0)
    assert scenario.history.starts[-1][1] > 10, "the stream was not shortened"
    assert len(scenario.history.seen) > 30
    check(tmp_path / "played" / "data", scenario.history, scenario.now())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_in_any_operation_breaks_no_promise(tmp_path: Path, seed: int) -> None:
    assert cut_power_in_each_operation(PLAN, tmp_path, seed) > 30


@ERRORS
def test_an_error_at_any_operation_breaks_no_promise(
    tmp_path: Path, error: int, failing_operations: int | None
) -> None:
    assert fail_each_operation(PLAN, tmp_path, error, failing_operations) > 7
