"""The whole server on a disk that fails, or loses power, at each operation of a scenario."""

import errno
from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.faulty_filesystem import Change, FaultyFileSystem
from tests.faults.power_cuts import OUTCOMES, STRIDE, crashes, leave, own_root
from tests.faults.scenario import Scenario
from tests.faults.telling import tell

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300 * OUTCOMES + 3000 // STRIDE)]


def told(root: Path, seed: int) -> tuple[Scenario, list[Change]]:
    """Tell the scenario on a good disk; return what the disk was asked for."""
    root.mkdir()
    filesystem = FaultyFileSystem(root)
    filesystem.keep_changes()
    scenario = Scenario(root / "data", filesystem, seed)
    assert tell(scenario), "a clean stop on a good disk"
    assert filesystem.changes
    return scenario, filesystem.changes


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
                error.add_note(
                    f"seed={seed} operation={number} {scenario.filesystem.operations[number]} "
                    f"outcome={outcome} left in {root}"
                )
                raise
        count += 1
    print(f"power cuts={count} operations={changes[-1].operation + 1} seed={seed}")
    assert count > 150


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
            scenario = Scenario(root / "data", failing)
            try:
                is_clean = tell(scenario)
                if number >= len(failing.operations):
                    assert is_clean
                    break
                failing.end_process()
                check(root / "data", scenario.history, scenario.now(), may_be_marked=True)
            except Exception as failure:
                names = failing.operations[number : number + 1]
                failure.add_note(f"operation={number} {names} left in {root}")
                raise
    assert number > 150


def test_pytest_keeps_only_the_text_of_log_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An error holds its traceback, and so its disk: gigabytes over a whole scenario."""
    failing = FaultyFileSystem(tmp_path, 120, failing_operations=None)
    tell(Scenario(tmp_path / "data", failing))
    assert "journal failed" in caplog.text
    assert not any(record.args or record.exc_info for record in caplog.records)


def test_the_scenario_has_the_same_operations_each_time(tmp_path: Path) -> None:
    first, _ = told(tmp_path / "first", 3)
    second, _ = told(tmp_path / "second", 3)
    assert first.filesystem.operations == second.filesystem.operations
    other, _ = told(tmp_path / "other", 4)
    assert other.filesystem.operations != first.filesystem.operations


def test_a_clean_stop_keeps_everything_unchanged(tmp_path: Path) -> None:
    scenario, _ = told(tmp_path / "told", 0)
    assert len(list((tmp_path / "told").rglob("*.log"))) > 8, "no segment was rolled"
    assert scenario.reclaimed["pinned"] >= 2, "almost nothing was compacted"
    assert scenario.reclaimed["kept"], "nothing that was kept had to go"
    assert scenario.reclaimed["forced"], "nothing had to go by force"
    check(tmp_path / "told" / "data", scenario.history, scenario.now(), is_exact=True)
