"""A stream and its groups on a disk that fails, or loses power, at operation 0, 1, 2, ..."""

import errno
from pathlib import Path

import pytest

from tests.faults.faulty_filesystem import Change, FaultyFileSystem
from tests.faults.power_cuts import OUTCOMES, STRIDE, crashes, leave, own_root
from tests.faults.stream_scenario import StreamScenario, check, tell

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300 * OUTCOMES + 3000 // STRIDE)]


def told(root: Path, seed: int) -> tuple[StreamScenario, list[Change]]:
    root.mkdir()
    filesystem = FaultyFileSystem(root)
    filesystem.keep_changes()
    scenario = StreamScenario(root / "data", filesystem, seed)
    assert tell(scenario), "a clean stop on a good disk"
    assert filesystem.changes
    return scenario, filesystem.changes


def test_a_clean_stop_keeps_streams_and_groups(tmp_path: Path) -> None:
    scenario, _ = told(tmp_path / "told", 0)
    assert scenario.history.starts[-1][1] > 10, "the stream was not shortened"
    assert len(scenario.history.seen) > 30
    check(tmp_path / "told" / "data", scenario.history, scenario.now())


@pytest.mark.parametrize("seed", range(max(1, OUTCOMES // 2)))
def test_a_power_cut_in_any_operation_breaks_no_promise(tmp_path: Path, seed: int) -> None:
    scenario, changes = told(tmp_path / "told", seed)
    count = 0
    for number, outcome, survivors in crashes(changes, seed):
        with own_root(tmp_path / f"{number} {count}") as root:
            leave(survivors, tmp_path / "told", root)
            try:
                check(root / "data", scenario.history, number)
            except Exception as error:
                operation = scenario.filesystem.operations[number]
                error.add_note(
                    f"seed={seed} operation={number} {operation} {outcome} left in {root}"
                )
                raise
        count += 1
    assert count > 80


@pytest.mark.parametrize(
    ("error", "failing_operations"),
    [(errno.EIO, 1), (errno.ENOSPC, 1), (errno.ENOSPC, 8), (errno.EIO, None)],
    ids=["EIO", "ENOSPC", "full for a while", "dead"],
)
def test_an_error_at_any_operation_breaks_no_promise(
    tmp_path: Path, error: int, failing_operations: int | None
) -> None:
    for number in range(error % STRIDE, 100_000, STRIDE):
        with own_root(tmp_path / str(number)) as root:
            failing = FaultyFileSystem(root, number, error, failing_operations=failing_operations)
            scenario = StreamScenario(root / "data", failing)
            try:
                is_clean = tell(scenario)
                if number >= len(failing.operations):
                    assert is_clean
                    break
                failing.end_process()
                check(root / "data", scenario.history, scenario.now())
            except Exception as failure:
                names = failing.operations[number : number + 1]
                failure.add_note(f"operation={number} {names} left in {root}")
                raise
    assert number > 80
