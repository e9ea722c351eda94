"""`amqp-server export` with many queues, bounds and choices, up to where Spark would start."""

import errno
import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from appendlog.export_records import EXPORTS_FOLDER, read_records
from appendlog.files.filesystem import FileSystem
from appendlog.reclaim.leases import LEASES_FOLDER
from appendlog.spark.exporting import export_plan
from appendlog.spark.exporting.files.file_task import FileTask, TaskResult
from appendlog.spark.exporting.spark_runner import SparkRunner
from cli import export as export_module
from cli.main import main
from offsets import CheckpointStore, QueueCheckpoint
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.damage import flip_middle
from tests.spark.local_exports import LocalRunner, run_here
from tests.spark.plain_reader import written_rows


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AMQP_SERVER_STORAGE_PATH", raising=False)
    return tmp_path / "data"


def stored(data: Path, name: str, count: int) -> StoredQueue:
    queue = store_queue(data, name, segment_bytes=4096)
    queue.append(plain_messages(count), step=10)
    queue.close()
    return queue


@pytest.fixture
def queues(data: Path) -> list[StoredQueue]:
    return [stored(data, "orders.eu", 300), stored(data, "orders.us", 50), stored(data, "odd", 20)]


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> LocalRunner:
    return run_here(monkeypatch)


def export(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["export", *arguments])
    written = capsys.readouterr()
    return code, written.out, written.err


def damage(queue: StoredQueue) -> None:
    flip_middle(queue.segments()[1])


def test_a_dry_run_says_what_would_be_done_and_leaves_nothing_behind(
    data: Path, queues: list[StoredQueue], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(data.parent.rglob("*"))
    arguments = ("--pattern", "orders[.].*", "--out", "out", "--partition-by", "day", "--dry-run")
    code, out, err = export(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "queue orders.eu: 300 offsets, [0, 300); " in out
    assert "queue orders.us: 50 offsets, [0, 50); " in out
    assert "  date=2023-11-14/" in out
    assert sorted(data.parent.rglob("*")) == before


def test_what_was_removed_before_the_first_export_is_told_once(
    data: Path, without_spark: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = store_queue(data, "orders", segment_bytes=4096)
    queue.append(plain_messages(300), step=10)
    queue.log.remove_settled(150)
    start = queue.log.log_start_offset
    note = f"note: the log begins at offset {start}; what was before it is settled and removed"
    arguments = ("--queue", "orders", "--out", "out")
    for options in (("--dry-run",), ()):
        code, out, _ = export(capsys, *arguments, *options)
        assert code == 0
        assert note in out
    end = queue.log.log_end_offset
    queue.append(plain_messages(100), step=10)
    queue.log.remove_settled(end)
    queue.close()
    code, out, _ = export(capsys, *arguments)
    assert code == 0
    assert "the log begins at" not in out


def test_a_plan_as_json_has_ranges_tasks_and_bytes(
    queues: list[StoredQueue], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_plan, "SPLIT_BYTES", 2000)
    arguments = ("--queue", "orders.eu", "--out", "out", "--since", "30", "--dry-run", "--json")
    code, out, _ = export(capsys, *arguments, "--master", "local[2]")
    document = json.loads(out)
    (queue,) = document["queues"]
    assert (code, document["exit_code"]) == (0, 0)
    assert (queue["status"], queue["ranges"], queue["offsets"]) == ("planned", [[30, 300]], 270)
    tasks = queue["tasks"]
    assert len(tasks) > 3
    assert (tasks[0]["start"], tasks[-1]["end"]) == (30, 300)
    assert sum(task["log_bytes"] for task in tasks) == queue["log_bytes"] > 270 * 40


def test_queues_are_one_run_whichever_way_they_are_named(
    queues: list[StoredQueue], without_spark: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--queue", "orders.eu, odd", "--queue", "orders.us", "--out", "out")
    code, out, err = export(capsys, *arguments)
    assert code == 0
    assert out.count("exported ") == 3
    assert "exported 20 messages, offsets [0, 20) of queue odd, to " in out
    assert {task.log.queue for task in without_spark.tasks} == {"odd", "orders.eu", "orders.us"}
    assert len(written_rows(Path("out"))) == 370
    assert "of log done, " in err
    code, out, err = export(capsys, *arguments)
    assert (code, out.count("nothing new in queue"), err) == (3, 3, "")


def test_the_result_as_json_is_all_that_is_on_standard_output(
    queues: list[StoredQueue], without_spark: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    export(capsys, "--queue", "odd", "--out", "out")
    _, out, _ = export(capsys, "--pattern", ".*", "--out", "out", "--json")
    document = json.loads(out)
    found = {queue["queue"]: queue for queue in document["queues"]}
    assert document["exit_code"] == 0
    assert found["odd"]["status"] == "nothing_new"
    eu = found["orders.eu"]
    assert (eu["status"], eu["rows"], eu["missing"], eu["corrupt"]) == ("exported", 300, 0, 0)
    assert eu["bytes"] == sum(path.stat().st_size for path in Path("out/queue=orders.eu").iterdir())


def test_a_damaged_queue_costs_the_others_nothing_and_the_exit_code_tells(
    queues: list[StoredQueue], without_spark: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(queues[0])
    code, out, err = export(capsys, "--pattern", ".*", "--out", "out", "--json")
    document = json.loads(out)
    assert (code, document["exit_code"]) == (5, 5)
    states = {queue["queue"]: queue["status"] for queue in document["queues"]}
    assert states == {"odd": "exported", "orders.us": "exported", "orders.eu": "failed"}
    assert sum(line.startswith("amqp-server: error: ") for line in err.splitlines()) == 1
    assert "--on-corrupt quarantine" in err
    arguments = ("--queue", "orders.eu", "--out", "out", "--on-corrupt", "quarantine")
    code, out, _ = export(capsys, *arguments)
    assert code == 0
    (note,) = (line for line in out.splitlines() if "10 offsets are in damaged parts" in line)
    kept = Path(note.rpartition(" ")[2])
    assert kept == Path("out/_corrupt/queue=orders.eu").absolute()
    assert len(list(kept.iterdir())) == 1


def test_loss_in_one_queue_is_exit_code_4_and_can_be_allowed(
    queues: list[StoredQueue], without_spark: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    export(capsys, "--queue", "orders.eu", "--out", "out", "--until", "10")
    queues[0].segments()[0].unlink()
    code, out, err = export(capsys, "--queue", "orders.eu,odd", "--out", "out")
    assert code == 4
    assert "of queue odd" in out
    assert "--allow-data-loss" in err
    arguments = ("--queue", "orders.eu", "--out", "out", "--since", "last", "--allow-data-loss")
    code, out, _ = export(capsys, *arguments)
    assert code == 0
    assert "offsets are not in the log: [10, " in out
    assert export(capsys, *arguments)[0] == 3


def test_what_is_acked_is_told_with_the_checkpoint(
    data: Path,
    queues: list[StoredQueue],
    without_spark: LocalRunner,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--queue", "odd", "--out", "out", "--include", "acked")
    code, out, _ = export(capsys, *arguments)
    assert code == 3
    assert "there is no checkpoint" in out
    store, _, _ = CheckpointStore.open(data / "offsets", FileSystem())
    store.write_round([QueueCheckpoint(queues[2].location.incarnation, 5, [(8, 10)])])
    store.close()
    code, out, _ = export(capsys, *arguments)
    assert code == 0
    assert "exported 7 messages, offsets [0, 10) of queue odd" in out
    assert "note: acked messages only, as of checkpoint 1.1, " in out
    assert "note: 3 offsets between them are left out for good" in out
    assert "(--until 5 would have left none out)" in out
    code, _, err = export(capsys, "--queue", "odd", "--out", "out")
    assert code == 2
    assert "holds --include acked" in err


@pytest.mark.parametrize(
    ("since", "first"),
    [
        ("100", 100),
        ("earliest", 0),
        ("1s", None),
        ("2h ago", None),
        ("latest", None),
        ("2023-11-14", 0),
        ("2023-11-14T22:13:20.1Z", 100),
        ("2023-11-14T23:13:20.1+01:00", 100),
    ],
)
def test_where_to_begin_can_be_said_in_many_ways(
    queues: list[StoredQueue], capsys: pytest.CaptureFixture[str], since: str, first: int | None
) -> None:
    arguments = ("--queue", "orders.eu", "--out", "out", "--dry-run", "--json", "--since", since)
    code, out, _ = export(capsys, *arguments)
    (queue,) = json.loads(out)["queues"]
    assert code == (3 if first is None else 0)
    assert queue["ranges"] == ([] if first is None else [[first, 300]])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--since", "yesterday"), "'yesterday' is no place in a log"),
        (("--since", "-5"), "'-5'"),
        (("--until", "last"), "'last' is no place in a log"),
        (("--since", "5 parsecs"), "no place in a log"),
        (("--target-file-size", "3"), "at least 1KiB"),
        (("--target-file-size", "big"), "not a size"),
        (("--partition-by", "week"), "'week' divides no files: write day, hour, header:NAME"),
        (("--include", "some"), "'some' is not one of"),
        (("--on-corrupt", "ignore"), "'ignore' is not one of"),
        (("--pattern", ".*"), "one of --queue and --pattern"),
        (("--master", "spork://x"), "no master of Spark"),
        (("--out", "ftq://host/x"), "ftq"),
        (("--since", "200", "--until", "100"), "after --until 100"),
    ],
)
def test_each_mistake_is_one_line(
    queues: list[StoredQueue],
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    code, out, err = export(capsys, "--queue", "orders.eu", "--out", "out", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("amqp-server: error: ")
    assert err.count("\n") == 1
    assert complaint in err
    assert not Path("out").exists()


def test_a_pattern_that_is_none_or_matches_nothing_is_told(
    queues: list[StoredQueue], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = export(capsys, "--pattern", "(", "--out", "out")
    assert (code, "regular expression" in err) == (2, True)
    code, _, err = export(capsys, "--pattern", "x.*", "--out", "out")
    assert (code, "3 durable queues" in err) == (2, True)


def test_leases_are_taken_while_tasks_run_and_are_gone_afterwards(
    data: Path,
    queues: list[StoredQueue],
    without_spark: LocalRunner,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[list[dict[str, Any]]] = []

    def look(_: FileTask) -> None:
        seen.append([json.loads(path.read_bytes()) for path in (data / LEASES_FOLDER).iterdir()])

    without_spark.before_task = look
    export(capsys, "--queue", "odd,orders.us", "--out", "out", "--since", "15")
    assert {(lease["queue"], lease["low_offset"]) for lease in seen[0]} == {
        ("odd", 15),
        ("orders.us", 15),
    }
    assert not list((data / LEASES_FOLDER).iterdir())
    export(capsys, "--queue", "orders.eu", "--out", "out", "--no-lease")
    assert seen[-1] == []


def test_the_data_directory_knows_what_a_run_has_done(
    data: Path,
    queues: list[StoredQueue],
    without_spark: LocalRunner,
    capsys: pytest.CaptureFixture[str],
) -> None:
    export(capsys, "--queue", "odd,orders.us", "--out", "out", "--partition-by", "day")
    (record,) = read_records(data)
    assert record["out"].endswith("out")
    assert record["settings"]["queues"] == ["odd,orders.us"]
    assert (record["settings"]["partition_by"], record["settings"]["to"]) == ("day", "parquet")
    assert (record["runs"], record["exit_code"]) == (1, 0)
    assert record["ended_ns"] >= record["started_ns"] > 0
    noted = {each["queue"]: each for each in record["queues"]}
    assert (noted["orders.us"]["end"], noted["orders.us"]["rows"]) == (50, 50)
    assert noted["odd"]["status"] == "exported"
    export(capsys, "--queue", "orders.us", "--out", "out", "--partition-by", "day")
    (again,) = read_records(data)
    assert (again["runs"], again["exit_code"]) == (2, 3)
    us = next(each for each in again["queues"] if each["queue"] == "orders.us")
    assert (us["status"], us["end"], us["rows"]) == ("nothing_new", 50, 50)
    shutil.rmtree(data / EXPORTS_FOLDER)
    (data / EXPORTS_FOLDER).write_text("a file in its place")
    code, _, err = export(capsys, "--queue", "orders.us", "--out", "elsewhere")
    assert code == 0
    assert "the server will not show this export" in err


def test_ctrl_c_is_one_line_and_leaves_nothing_behind(
    data: Path,
    queues: list[StoredQueue],
    without_spark: LocalRunner,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(_: FileTask) -> None:
        raise KeyboardInterrupt

    without_spark.before_task = interrupt
    code, out, err = export(capsys, "--queue", "odd", "--out", "out")
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted: nothing was exported"
    assert not list((data / LEASES_FOLDER).iterdir())
    assert not list(Path("out").rglob("*.parquet"))
    assert not list(Path("out").rglob("job-*"))


def test_being_terminated_is_what_ctrl_c_is(
    data: Path,
    queues: list[StoredQueue],
    without_spark: LocalRunner,
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminated: list[int] = []

    def note(number: int, _: object) -> None:
        terminated.append(number)

    before = signal.signal(signal.SIGTERM, note)
    try:
        without_spark.before_task = lambda _: signal.raise_signal(signal.SIGTERM)
        code, out, err = export(capsys, "--queue", "odd", "--out", "out")
        assert signal.getsignal(signal.SIGTERM) is note
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (code, out, terminated) == (130, "", [])
    assert err.splitlines()[-1] == "interrupted: nothing was exported"
    assert not list((data / LEASES_FOLDER).iterdir())
    assert not list(Path("out").rglob("job-*"))


def test_a_file_operation_that_fails_names_the_file_and_why(
    queues: list[StoredQueue], without_spark: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: FileTask) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/lake/part")

    without_spark.before_task = fail
    code, _, err = export(capsys, "--queue", "odd", "--out", "out")
    assert code == 1
    assert err.splitlines()[-1] == "amqp-server: error: /lake/part: Permission denied"


def test_a_terminal_gets_a_bar_with_rate(
    queues: list[StoredQueue], without_spark: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CliRunner().isolation() as (_, stderr, both):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        assert main(["export", "--queue", "orders.eu", "--out", "out"]) == 0
        shown = stderr.getvalue().decode()
        lines = both.getvalue().decode().splitlines()
    assert "exporting" in shown
    assert "100%" in shown
    assert [line for line in lines if "messages, offsets" in line] == [lines[-1]]
    assert lines[-1].startswith("exported")
    assert "/s" in shown


def test_the_kinds_of_the_help_page_are_those_that_there_are() -> None:
    from appendlog.spark.exporting.output_kinds import OUTPUT_KINDS

    assert tuple(OUTPUT_KINDS) == export_module.KINDS


def test_spark_is_not_started_when_only_gaps_are_new(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output can have nothing to write and still something to commit."""

    def never(*_: object) -> list[TaskResult]:
        pytest.fail("Spark was started")

    monkeypatch.setattr(SparkRunner, "run", never)
    queue = stored(data, "orders", 100)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", "")
    queue.segments()[0].unlink()
    start = int(queue.segments()[0].stem)
    arguments = ("--since", "0", "--until", str(start), "--allow-data-loss")
    code, out, err = export(capsys, "--queue", "orders", "--out", "out", *arguments)
    assert (code, "starting Spark" in err) == (0, False)
    assert f"{start} offsets are not in the log: [0, {start})" in out


def test_queues_share_a_delta_table_and_go_on_where_they_ended(
    data: Path,
    queues: list[StoredQueue],
    without_spark: LocalRunner,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--pattern", ".*", "--to", "delta", "--out", "table", "--partition-by", "day")
    code, out, err = export(capsys, *arguments, "--until", "20")
    assert code == 0, err
    assert out.count("exported 20 messages") == 3
    code, out, err = export(capsys, *arguments, "--since", "last")
    assert code == 0, err
    assert "nothing new in queue odd" in out
    rows = DeltaTable("table").to_pyarrow_dataset().to_table(columns=["topic", "offset", "date"])
    found = sorted(zip(rows["topic"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    counts = {"odd": 20, "orders.eu": 300, "orders.us": 50}
    assert found == [(name, offset) for name, count in counts.items() for offset in range(count)]
    assert {str(date) for date in rows["date"].to_pylist()} == {"2023-11-14"}
    assert export(capsys, *arguments)[0] == 3
