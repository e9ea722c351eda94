"""The commands that look at an output, and import, where the output is in an object store."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.export import QueueExport
from appendlog.spark.exporting.export_plan import in_tasks, plan_queue
from appendlog.spark.exporting.output_kinds import OUTPUT_KINDS
from appendlog.spark.exporting.partition_fields import NO_PARTITIONS
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.queues import QueueLog
from cli.main import main
from tests.amqp_client import connect
from tests.servers import RunningServer
from tests.spark.builders import StoredQueue
from tests.spark.commits import plan, write_files
from tests.spark.local_exports import CORES, request, run_all
from tests.spark.log_exports import export_log, stored_queue
from tests.spark.object_stores import ACCESS_KEY, SECRET_KEY, LoopbackS3, new_memory, upload

Call = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def stored(tmp_path: Path) -> StoredQueue:
    return stored_queue(tmp_path / "data")


@pytest.fixture(params=["s3", "memory"])
def place(request: pytest.FixtureRequest, s3: LoopbackS3) -> tuple[str, dict[str, str]]:
    """Give the URL of a folder that is empty, and how it is reached."""
    if request.param == "s3":
        return f"s3://{s3.new_bucket()}/lake", s3.values
    return new_memory(), {}


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command with store options; see that no secret is shown."""

    def run(values: dict[str, str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        options = [f"--store-option={name}={value}" for name, value in values.items()]
        assert main([*arguments, "--json", *options]) == code
        written = capsys.readouterr()
        for text in written:
            assert SECRET_KEY not in text
            assert ACCESS_KEY not in text
        return [json.loads(line) for line in written.out.splitlines()]

    return run


def killed(store: OutputStore, log: QueueLog, end: int) -> None:
    """Leave what an export leaves that is killed before its commit."""
    to = FilesDestination(store, log)
    job = plan(to, end)
    manifests = Manifests(store, "orders")
    folder = manifests.job_path(manifests.survey().manifests, job.job_id)
    manifests.begin_job(folder, datetime.now(UTC))
    write_files(to, folder, job.ranges, 4)


def test_an_output_in_a_store_is_proved_and_shown(
    place: tuple[str, dict[str, str]], stored: StoredQueue, tmp_path: Path, call: Call
) -> None:
    url, values = place
    store = open_store(url, values)
    export_log(store, stored.location, until=40)
    export_log(store, stored.location, until=80)
    log = ("--storage-path", str(tmp_path / "data"))
    (row,) = call(values, "export", "status", "--out", url, *log)
    assert (row["covered"], row["exports"], row["log"]["offsets"]) == ([[0, 80]], 2, 27)
    (proof,) = call(values, "export", "verify", "--out", url, "--deep", *log)
    assert (proof["is_complete"], proof["rows"], proof["missing"]) == (True, 73, 7)
    assert proof["log"]["compared_rows"] == 73
    store.delete(next(file.path for file in store.list("queue=orders")))
    (proof,) = call(values, "export", "verify", "--out", url, code=4)
    assert [fault["kind"] for fault in proof["faults"]] == ["loss"]


def test_the_log_may_be_in_the_store_too(
    place: tuple[str, dict[str, str]], stored: StoredQueue, s3: LoopbackS3, call: Call
) -> None:
    url, values = place
    export_log(open_store(f"{url}/lake", values), stored.location)
    options = s3.options if values else s3.options.of({})
    upload(stored.storage_path, f"{url}/data", options)
    places = ("--out", f"{url}/lake", "--storage-path", f"{url}/data")
    (row,) = call(values, "export", "status", *places)
    assert row["log"]["durable_end"] == 107
    (proof,) = call(values, "export", "verify", "--deep", *places)
    assert (proof["is_complete"], proof["log"]["compared_rows"]) == (True, 100)


def test_what_a_killed_run_left_in_a_store_is_removed_when_it_is_old(
    place: tuple[str, dict[str, str]], stored: StoredQueue, call: Call
) -> None:
    url, values = place
    store = open_store(url, values)
    export_log(store, stored.location, until=40)
    killed(store, stored.location, 50)
    vacuum = ("export", "vacuum", "--out", url)
    assert {each["action"] for each in call(values, *vacuum)} == {"left"}
    old = (*vacuum, "--older-than", "0")
    assert {each["action"] for each in call(values, *old, "--dry-run")} == {"would_remove"}
    (row,) = call(values, "export", "status", "--out", url)
    assert row["unfinished_files"] == 4
    assert len(call(values, *old)) == 4
    assert call(values, *old) == []
    (row,) = call(values, "export", "status", "--out", url)
    assert (row["unfinished_files"], row["covered"]) == (0, [[0, 40]])
    export_log(store, stored.location)
    (proof,) = call(values, "export", "verify", "--out", url)
    assert (proof["is_complete"], proof["covered"]) == (True, [[0, 107]])


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_an_output_in_a_store_comes_back_into_a_queue(
    kind: str, s3: LoopbackS3, stored: StoredQueue, server: RunningServer, call: Call
) -> None:
    url = f"s3://{s3.new_bucket()}/lake"
    to = OUTPUT_KINDS[kind].destinations(open_store(url, s3.values), NO_PARTITIONS)(stored.location)
    planned = plan_queue(stored.storage_path, stored.location, to, request())
    run_all([QueueExport(in_tasks([planned], CORES)[0], to)])
    (row,) = call(s3.values, "export", "status", "--out", url)
    assert (row["covered"], row["rows"], row["missing"]) == ([[0, 107]], 100, 7)
    (proof,) = call(s3.values, "export", "verify", "--out", url, "--deep")
    assert (proof["is_complete"], proof["files"]) == (True, row["files"])
    with connect(server.address) as client:
        client.open_channel()
        client.declare("restored")
    arguments = ("import", "--queue", "restored", "--from", url)
    where = ("--storage-path", str(server.storage_path))
    (report,) = call(s3.values, *arguments, *where)
    assert (report["imported"], report["ranges"]) == (100, [[0, 107]])
    call(s3.values, *arguments, *where, code=3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["export", "status", "--out", "."], "no object store in --out or --storage-path"),
        (["export", "verify", "--out", "."], "no object store in --out or --storage-path"),
        (["export", "vacuum", "--out", "."], "no object store in --out"),
        (["import", "--queue", "q", "--from", "."], "no object store in --from"),
        (["export", "status", "--out", "s3://lake/x"], "nearest is secret_key"),
    ],
)
def test_options_that_would_do_nothing_are_refused_without_showing_them(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, f"--store-option=secretkey={SECRET_KEY}"]) == 2
    written = capsys.readouterr()
    assert complaint in written.err
    assert written.err.count("\n") == 1
    assert SECRET_KEY not in written.err
