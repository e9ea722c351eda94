"""The commands that look at data directories, on one that no server has ever run on."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli.main import main
from offsets import LogRoot
from tests.embedded.logs import BY_HAND

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture(params=["written", "being written"])
def embedded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A root with 300 records in some segments; its writer is gone, or not."""
    root = LogRoot.open(tmp_path, replace(BY_HAND, segment_bytes=4_000))
    for number in range(300):
        root.append("events", b"%08d" % number, b"key", {"n": number})
        if number % 10 == 9:
            root.log("events").flush()
    root.sync()
    if request.param == "written":
        root.close()
    yield tmp_path
    root.close()


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(list(map(str, arguments))) == 0
    written = capsys.readouterr()
    assert written.err == ""
    return written.out


def test_verify_finds_it_in_order(embedded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "verify", "--json", "--storage-path", embedded))
    assert "300" in json.dumps(found)


def test_inspect_shows_its_records(embedded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--queue", "events", "--from", "298", "--json", "--storage-path", embedded)
    rows = [json.loads(line) for line in run(capsys, "inspect", *arguments).splitlines()]
    assert [row["offset"] for row in rows] == [298, 299]


def test_stats_counts_it(embedded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = map(
        json.loads, run(capsys, "stats", "--json", "--storage-path", embedded).splitlines()
    )
    assert (row["name"], row["type"], row["recovery_point"]) == ("events", "stream", 300)
    assert row["segments"] > 2


def test_a_copy_by_backup_is_whole(
    embedded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path.with_name(f"{tmp_path.name}-copy")
    run(capsys, "backup", copy, "--storage-path", embedded)
    with LogRoot.open(copy, BY_HAND) as root:
        assert root.append("events", b"new") == 300


def test_what_changes_files_is_refused_beside_a_writer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LogRoot.open(tmp_path, BY_HAND) as root:
        root.append("events", b"x")
        root.sync()
        assert main(["repair", "--yes", "--storage-path", str(tmp_path)]) == 2
    assert str(os.getpid()) in capsys.readouterr().err
