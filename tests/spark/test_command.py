"""The command `amqp-server export`, up to the point where Spark would start."""

from pathlib import Path

import pytest

from cli.main import main
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.local_exports import export as export_without_spark


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredQueue:
    """Store a queue in ./data, which the command reads by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AMQP_SERVER_STORAGE_PATH", raising=False)
    queue = store_queue(tmp_path / "data", "flights", segment_bytes=2048)
    queue.append(plain_messages(100), step=10)
    queue.close()
    return queue


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """Run what must be refused; return the complaint, which must be one line."""
    assert main(["export", *arguments]) == code
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("amqp-server: error: ")
    assert written.err.count("\n") == 1
    return written.err.removeprefix("amqp-server: error: ")


def test_a_missing_data_directory_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    complaint = refused(capsys, "--queue", "flights", "--out", "out")
    assert complaint.startswith("data: no such data directory")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "Missing option '--queue' (or '--pattern')."),
        (("--queue", "flights"), "Missing option '--out'."),
        (("flights",), "'flights' is not expected here"),
    ],
)
def test_what_is_missing_or_too_much_is_named(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint in refused(capsys, *arguments)


def test_a_missing_queue_names_the_nearest(
    stored: StoredQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "flights" in refused(capsys, "--queue", "flight", "--out", "out")


def test_an_unknown_kind_of_file_lists_the_known_ones(
    stored: StoredQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    complaint = refused(capsys, "--queue", "flights", "--out", "out", "--to", "csv")
    assert "csv" in complaint
    assert "parquet" in complaint


def test_an_output_that_is_a_file_is_refused(
    stored: StoredQueue, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "out" / "queue=flights"
    folder.mkdir(parents=True)
    (folder / "mine.parquet").write_text("")
    assert "mine.parquet" in refused(capsys, "--queue", "flights", "--out", "out")


@pytest.mark.parametrize("extra", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("", "--out is empty"),
        ("taken", "taken: is a file, not a directory"),
        ("taken/lake", "taken is a file, not a directory"),
        ("data", "the server's own files are in data"),
        ("./data/lake", "the server's own files are in data"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is_done(
    stored: StoredQueue,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    out: str,
    complaint: str,
    extra: tuple[str, ...],
) -> None:
    (tmp_path / "taken").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    said = refused(capsys, "--queue", "flights", "--out", out, *extra)
    assert complaint in said
    assert sorted(tmp_path.rglob("*")) == before


def test_a_range_behind_the_durable_end_is_refused(
    stored: StoredQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    complaint = refused(capsys, "--queue", "flights", "--out", "out", "--until", "101")
    assert "durable end 100" in complaint


def test_nothing_new_is_exit_code_3_and_starts_no_spark(
    stored: StoredQueue,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", "")
    export_without_spark(stored, tmp_path / "out")
    assert main(["export", "--queue", "flights", "--out", "out"]) == 3
    assert main(["export", "--queue", "flights", "--out", "new", "--since", "100"]) == 3
    written = capsys.readouterr()
    assert written.out.count("nothing new in queue flights") == 2
    assert written.err == ""
    assert not (tmp_path / "new").exists()


def test_offsets_that_retention_removed_are_exit_code_4(
    stored: StoredQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.segments()[0].unlink()
    complaint = refused(capsys, "--queue", "flights", "--out", "out", "--since", "0", code=4)
    assert "--since " in complaint


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, "needs Java 17 or newer and there is none"),
        ('openjdk version "11.0.2" 2019-01-15', "is version 11"),
        ('java version "1.8.0_202"', "is version 8"),
        ("no idea", "does not name a version"),
    ],
)
def test_java_that_does_not_do_is_told_with_what_to_install(
    answer: str | None,
    expected: str,
    stored: StoredQueue,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    if answer is not None:
        java = tmp_path / "jdk" / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
        java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert main(["export", "--queue", "flights", "--out", "out"]) == 2
    *_, complaint = capsys.readouterr().err.splitlines()
    assert expected in complaint
    assert "openjdk" in complaint.lower()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("master", ["sc://host", "foo", "local[", "spark:", ""])
def test_a_master_that_cannot_be_is_refused_before_anything_starts(
    master: str, stored: StoredQueue, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["--queue", "flights", "--out", "out", "--master", master]
    assert "master" in refused(capsys, *arguments) or master == "sc://host"
    assert not (tmp_path / "out").exists()


def test_a_log_without_a_readable_header_is_one_line(
    stored: StoredQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in stored.segments():
        path.write_bytes(bytes(200))
    assert "readable header" in refused(capsys, "--queue", "flights", "--out", "out", code=1)
