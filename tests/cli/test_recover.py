"""`amqp-server recover`: what a start would find, and doing it without serving."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from tests.conftest import StartServer
from tests.data_directories import (
    chunk_positions,
    damage,
    fill,
    log_of,
    segments_of,
    snapshot,
    take,
    tear,
)


@pytest.fixture
def storage(tmp_path: Path, clean_environment: pytest.MonkeyPatch) -> Path:
    """A data directory after a clean stop: queues `a` and `b` with six messages each."""
    path = tmp_path / "data"
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(path))
    fill(path, a=6, b=6)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command; return its exit code and what it writes."""
    code = main(["recover", *arguments])
    written = capsys.readouterr()
    assert written.err == ""
    return code, written.out


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code, out = run(capsys, "--json", *arguments)
    return code, json.loads(out)


def refuse(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must be refused; return the complaint."""
    assert main(["recover", *arguments]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == 1
    return written.err


def make_torn(storage: Path) -> None:
    tear(segments_of(storage, "a")[-1])


def make_damaged(storage: Path) -> None:
    segment = segments_of(storage, "b")[-1]
    damage(segment, chunk_positions(segment)[2] + 100)


def make_unopened(storage: Path) -> None:
    (document,) = (storage / "metadata" / "queues" / "%2f").glob("a.json")
    document.write_bytes(b"{")


def test_a_file_in_place_of_the_directory_is_refused(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--last"], ["--dry-run"], []):
        complaint = refuse(capsys, *arguments, "--storage-path", str(storage / "FORMAT"))
        assert "Errno" not in complaint
        assert complaint.lower().rstrip().endswith("not a directory")


@pytest.mark.parametrize(
    ("spoil", "code", "outcome"),
    [
        (lambda _: None, 0, "clean"),
        (make_torn, 3, "torn"),
        (make_damaged, 4, "damaged"),
        (make_unopened, 5, "unopened"),
    ],
)
def test_a_dry_run_finds_what_a_start_finds_and_changes_nothing(
    storage: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Any,  # noqa: ANN401 - a function of the path
    code: int,
    outcome: str,
) -> None:
    spoil(storage)
    before = snapshot(storage)
    found = run_json(capsys, "--dry-run")
    assert (found[0], found[1]["outcome"], found[1]["is_dry_run"]) == (code, outcome, True)
    assert snapshot(storage) == before
    done = run_json(capsys)
    for report in (found[1], done[1]):
        for field in ("written_at", "seconds", "is_dry_run"):
            del report[field]
        for queue in report["queues"]:
            queue.pop("seconds", None)
    assert done == found
    assert snapshot(storage) != before


def test_recovery_cuts_what_is_torn_and_the_next_start_is_clean(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_torn(storage)
    assert run(capsys)[0] == 3
    assert list(log_of(storage, "a").glob("*.torn"))
    assert run(capsys, "--dry-run")[0] == 0
    assert take(storage, "a") == [b"m%d" % number for number in range(6)]


def test_damage_costs_one_chunk_and_is_told_queue_by_queue(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_damaged(storage)
    _, report = run_json(capsys)
    spoilt, other = report["queues"]
    assert (spoilt["name"], spoilt["outcome"], spoilt["lost"]) == ("b", "damaged", [[2, 3]])
    assert (spoilt["records"], spoilt["ready"], spoilt["damaged_chunks"]) == (5, 5, 1)
    assert (other["name"], other["outcome"], other["ready"]) == ("a", "clean", 6)
    assert report["totals"]["lost_offsets"] == 1
    assert list(log_of(storage, "b").glob("*.damaged"))
    assert take(storage, "b") == [b"m0", b"m1", b"m3", b"m4", b"m5"]


def test_the_text_names_the_queue_and_what_it_lost(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_damaged(storage)
    code, text = run(capsys, "--dry-run")
    assert code == 4
    assert "dry run: nothing was changed" in text
    assert "b in /: 1 damaged" in text
    assert "lost 1 offsets: [2, 3)" in text


def test_each_start_leaves_its_report_behind(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_torn(storage)
    fill(storage)
    code, report = run_json(capsys, "--last")
    assert (code, report["outcome"], report["is_dry_run"]) == (3, "torn", False)
    assert report["totals"]["ready"] == 12
    assert report["was_clean_stop"] is True


def test_a_running_server_is_left_alone(
    start_server: StartServer,
    clean_environment: pytest.MonkeyPatch,
    capsys: Any,  # noqa: ANN401
) -> None:
    server = start_server()
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))
    for arguments in ((), ("--dry-run",)):
        assert f"is in use by process {server.pid}" in refuse(capsys, *arguments)
    assert run_json(capsys, "--last")[0] == 0


def test_what_is_no_data_directory_is_refused_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"
    assert "No such file" in refuse(capsys, "--storage-path", str(missing))
    assert not missing.exists()
    assert "FORMAT is missing" in refuse(capsys, "--dry-run", "--storage-path", str(tmp_path))
    assert "no recovery report" in refuse(capsys, "--last", "--storage-path", str(tmp_path))
    (tmp_path / "FORMAT").write_text("99\n")
    assert "FORMAT is '99'" in refuse(capsys, "--dry-run", "--storage-path", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["FORMAT"]
