"""`amqp-server stats`: from the running server, page by page, or from the files."""

import json
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.control.client import ControlError, ask
from cli.main import main
from tests.amqp_client import connect
from tests.data_directories import fill, segments_of
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

Rows = list[dict[str, Any]]


def stats(capsys: pytest.CaptureFixture[str], storage: Path, *arguments: str) -> Rows:
    """Run the command; return its rows."""
    assert main(["stats", "--json", "--storage-path", str(storage), *arguments]) == 0
    written = capsys.readouterr()
    assert written.err == ""
    return [json.loads(line) for line in written.out.splitlines()]


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""


def test_a_queue_that_cannot_be_read_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = tmp_path / "data"
    fill(storage, a=2, b=3)
    (segment,) = segments_of(storage, "a")
    segment.unlink()
    segment.symlink_to(segment.name)
    unreadable, sound = stats(capsys, storage)
    assert (unreadable["name"], unreadable["state"]) == ("a", "unreadable")
    assert segment.name in unreadable["failed"]
    assert (sound["name"], sound["ready"]) == ("b", 3)


def test_a_vhost_that_is_not_there_is_refused_by_server_and_files_alike(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files told of no queue at all, and the exit code of the server's word was another."""
    arguments = ["stats", "--vhost", "nope", "--storage-path", str(server.storage_path)]
    asked = main(arguments), capsys.readouterr()
    server.terminate()
    read = main(arguments), capsys.readouterr()
    assert (asked[0], asked[1].out) == (2, "")
    assert (read[0], read[1].out) == (2, "")
    assert "nope" in asked[1].err
    assert "nope" in read[1].err


def test_what_a_queue_holds_is_told(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(5):
            client.publish(b"m%d" % number, "q")
        client.expect_confirmed()
        first, second = client.get("q", no_ack=False), client.get("q", no_ack=False)
        assert first is not None
        assert second is not None
        client.send(Basic.Ack(delivery_tag=second.tag))
        assert client.ready_count("q") == 3
        (row,) = stats(capsys, server.storage_path, "--queue", "q")
    assert (row["vhost"], row["name"], row["type"], row["state"]) == (
        "/",
        "q",
        "classic",
        "running",
    )
    assert (row["ready"], row["unacked"], row["appended"]) == (3, 1, 5)
    assert (row["ack_floor"], row["settled_above_floor"], row["delivered_end"]) == (0, 1, 2)
    assert (row["log_start_offset"], row["log_end_offset"], row["recovery_point"]) == (0, 5, 5)
    assert (row["segments"], row["records"], row["durability"]) == (1, 5, "fsync")
    assert row["disk_bytes"] > 0
    assert row["index_entries"] == 1
    assert row["failed"] is None


def test_many_queues_come_in_pages_by_name_and_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.stats.PAGE_QUEUES", 3)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        names = [f"q{number:02}" for number in range(10)]
        for name in reversed(names):
            client.call(Queue.Declare(queue=name, durable=True), Queue.DeclareOk)
        assert [row["name"] for row in stats(capsys, tmp_path)] == names
        assert [row["name"] for row in stats(capsys, tmp_path, "--match", "7")] == ["q07"]
        client.publish(b"x", "q04")
        client.ready_count("q04")
        assert stats(capsys, tmp_path, "--sort", "ready", "--limit", "1")[0]["name"] == "q04"
        for limit in (0, 501):
            with pytest.raises(ControlError, match="limit is"):
                ask(tmp_path, "queues.stats", vhost="", queue="", after="", limit=limit)
        with pytest.raises(ControlError, match="'after' is not"):
            ask(tmp_path, "queues.stats", vhost="", queue="", after="x", limit=1)


def test_where_no_server_runs_the_files_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, a=6, b=2)
    first, second = stats(capsys, tmp_path)
    assert (first["name"], first["state"], first["ready"], first["segments"]) == (
        "a",
        "stopped",
        6,
        1,
    )
    assert (second["ready"], second["recovery_point"]) == (2, 2)
    (alone,) = stats(capsys, tmp_path, "--queue", "b")
    assert alone.pop("checkpoint_age_seconds") >= second.pop("checkpoint_age_seconds") >= 0
    assert alone == second


def test_the_table_has_a_line_for_each_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, a=6, b=2)
    assert main(["stats", "--storage-path", str(tmp_path), "--limit", "1"]) == 0
    written = capsys.readouterr()
    head, line = written.out.splitlines()
    assert head.split() == [
        "READY",
        "UNACKED",
        "FLOOR",
        "END",
        "SEGMENTS",
        "DISK",
        "STATE",
        "QUEUE",
    ]
    assert line.split()[:3] == ["6", "-", "0"]
    assert line.endswith("stopped   a in /")
    assert written.err == "... and 1 more: --limit, --match, --sort\n"


def test_what_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, a=1)
    for arguments, complaint in (
        (["--queue", "none"], "no queue 'none' in vhost '/'"),
        (["--storage-path", str(tmp_path / "missing")], "No such file"),
    ):
        assert main(["stats", "--storage-path", str(tmp_path), *arguments]) == 2
        written = capsys.readouterr()
        assert complaint in written.err
        assert written.err.count("\n") == 1
