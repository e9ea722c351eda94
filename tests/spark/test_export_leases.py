"""What an export reads stays while it reads, with a real server and its retention beside it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from appendlog.reclaim import leases
from appendlog.spark.exporting import lease as lease_module
from appendlog.spark.exporting.files.file_task import FileTask
from appendlog.spark.exporting.lease import ExportLeases
from cli.main import main
from tests.amqp_client import connect
from tests.spark.builders import plain_messages, store_queue
from tests.spark.local_exports import LocalRunner, run_here
from tests.spark.plain_reader import written_rows
from tests.system.test_retention import do_rounds, files, fill, take
from tests.threaded_server import ThreadedServer


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> LocalRunner:
    return run_here(monkeypatch)


def export(data: Path, *arguments: str) -> int:
    where = ("--storage-path", str(data), "--out", str(data.parent / "out"))
    return main(["export", "--queue", "q", *where, *arguments])


@pytest.mark.parametrize("holds", [True, False], ids=["a lease that holds", "one that is over"])
def test_retention_waits_for_a_slow_export_while_its_lease_holds(
    tmp_path: Path, without_spark: LocalRunner, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    data = tmp_path / "data"
    if not holds:
        monkeypatch.setattr(leases, "LEASE_SECONDS", 0)
    with (
        ThreadedServer(data, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 61, {})

        def consume_all(_: FileTask) -> None:
            take(client, server, 61)
            do_rounds(server)
            assert files(data) == (11 if holds else 1)

        without_spark.before_task = consume_all
        assert export(data) == (0 if holds else 4)
        assert len(written_rows(tmp_path / "out")) == (61 if holds else 0)
        assert not list((data / leases.LEASES_FOLDER).iterdir())
        do_rounds(server)
        assert files(data) == 1


def test_leases_are_renewed_while_the_driver_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.1)
    queue = store_queue(tmp_path)
    queue.append(plain_messages(3))
    queue.close()

    def held() -> dict[str, Any]:
        (path,) = (tmp_path / leases.LEASES_FOLDER).glob("*.json")
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found

    said: list[str] = []
    with ExportLeases(tmp_path, said.append) as export_leases:
        export_leases.take(queue.location)
        export_leases.hold_from(queue.location, 2)
        first = held()
        assert (first["queue"], first["low_offset"]) == ("orders", 2)
        until = time.monotonic() + 30
        while held()["expires_ns"] <= first["expires_ns"]:
            assert time.monotonic() < until, "it is not renewed"
        assert held()["low_offset"] == 2
    assert not list((tmp_path / leases.LEASES_FOLDER).iterdir())
    assert said == []


def test_a_data_directory_that_cannot_be_written_is_told_and_read(
    tmp_path: Path, without_spark: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    queue = store_queue(data, "q")
    queue.append(plain_messages(3))
    queue.close()
    (data / leases.LEASES_FOLDER).write_text("a file in its place")
    assert export(data) == 0
    assert "note: no lease on the log of queue q" in capsys.readouterr().err
    assert len(written_rows(tmp_path / "out")) == 3
