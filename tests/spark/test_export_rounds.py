"""`amqp-server export --every` round by round, without Spark and without waiting."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appendlog.export_records import read_records
from appendlog.reclaim.leases import LEASES_FOLDER
from appendlog.spark.errors import SparkFailedError
from appendlog.spark.exporting.files.file_task import FileTask
from cli import export_rounds
from cli.export_rounds import RoundTimes
from cli.main import main
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.damage import flip_middle
from tests.spark.local_exports import LocalRunner, run_here
from tests.spark.plain_reader import written_rows

Step = Callable[[], object]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AMQP_SERVER_STORAGE_PATH", raising=False)
    return tmp_path / "data"


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> LocalRunner:
    monkeypatch.setattr(export_rounds, "check_java", lambda: None)
    return run_here(monkeypatch)


class Rounds:
    """Runs the command; between its rounds it takes one step each, and ends it after the last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._steps: list[Step] = []
        self.pauses: list[float] = []
        monkeypatch.setattr(export_rounds, "pause", self._pause)

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self._steps:
            raise KeyboardInterrupt
        self._steps.pop(0)()

    def run(self, *arguments: str, steps: list[Step] | None = None) -> tuple[int, str, str]:
        """Run one round more than there are steps; return exit code and outputs."""
        self._steps = steps or []
        code = main(["export", "--out", "out", "--every", "10m", *arguments])
        written = self._capsys.readouterr()
        return code, written.out, written.err

    def documents(
        self, *arguments: str, steps: list[Step] | None = None
    ) -> tuple[int, list[dict[str, Any]], str]:
        """Run with `--json`; return the exit code, the documents and standard error."""
        code, out, err = self.run("--json", *arguments, steps=steps)
        return code, [json.loads(line) for line in out.splitlines()], err


@pytest.fixture
def rounds(
    data: Path,
    without_spark: LocalRunner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Rounds:
    return Rounds(monkeypatch, capsys)


def stored(data: Path, name: str, count: int = 50) -> StoredQueue:
    queue = store_queue(data, name, segment_bytes=4096)
    queue.append(plain_messages(count), step=10)
    return queue


def statuses(document: dict[str, Any]) -> dict[str, str]:
    return {queue["queue"]: queue["status"] for queue in document["queues"]}


def lows(data: Path) -> dict[str, int]:
    found = [json.loads(path.read_bytes()) for path in (data / LEASES_FOLDER).iterdir()]
    return {lease["queue"]: lease["low_offset"] for lease in found}


def test_rounds_begin_at_whole_intervals_and_a_late_one_is_left_out() -> None:
    now = 1000.0
    times = RoundTimes(10, lambda: now)
    assert times.until_next() == 10
    now = 1009.5
    assert times.until_next() == 0.5
    now = 1010
    assert times.until_next() == 10
    now = 1037.5
    assert times.until_next() == 2.5


def test_each_round_exports_what_is_new_and_nothing_new_is_no_error(
    data: Path, rounds: Rounds
) -> None:
    queue = stored(data, "orders")
    steps: list[Step] = [lambda: None, lambda: queue.append(plain_messages(30, 50))]
    code, out, err = rounds.run("--queue", "orders", steps=steps)
    first, second, third = (line.split(" ", 1)[1] for line in out.splitlines())
    assert (code, err) == (0, "")
    assert first.startswith("round 1: 50 messages of 1 queue in 1 file, ")
    assert second.startswith("round 2: nothing new in 1 queue, ")
    assert third.startswith("round 3: 30 messages of 1 queue in 1 file, ")
    assert "; next at 20" in third
    assert [row["offset"] for row in written_rows(Path("out"))] == list(range(80))
    assert all(0 < seconds <= 600 for seconds in rounds.pauses)
    (record,) = read_records(data)
    assert (record["runs"], record["exit_code"]) == (3, 0)


def test_each_round_is_one_json_document(data: Path, rounds: Rounds) -> None:
    stored(data, "orders")
    code, (first, second), err = rounds.documents("--queue", "orders", steps=[lambda: None])
    assert (code, err) == (0, "")
    assert (first["round"], first["exit_code"], first["queues"][0]["rows"]) == (1, 0, 50)
    assert (second["round"], second["exit_code"], second["next_at"] > second["started_at"]) == (
        2,
        3,
        True,
    )


def test_a_pattern_finds_queues_that_appear_later(data: Path, rounds: Rounds) -> None:
    stored(data, "other")
    steps: list[Step] = [lambda: stored(data, "orders.eu"), lambda: stored(data, "orders.us", 20)]
    code, found, err = rounds.documents("--pattern", "orders[.].*", steps=steps)
    assert (code, err) == (0, "")
    assert [statuses(each) for each in found] == [
        {},
        {"orders.eu": "exported"},
        {"orders.eu": "nothing_new", "orders.us": "exported"},
    ]


def test_a_named_queue_that_is_missing_costs_the_others_nothing(data: Path, rounds: Rounds) -> None:
    stored(data, "orders")
    steps: list[Step] = [lambda: stored(data, "later")]
    code, (first, second), err = rounds.documents("--queue", "orders,later", steps=steps)
    assert code == 0
    assert (first["exit_code"], statuses(first)) == (2, {"orders": "exported", "later": "failed"})
    assert statuses(second) == {"orders": "nothing_new", "later": "exported"}
    assert err.count("no durable queue 'later'") == 1
    (record,) = read_records(data)
    assert {queue["queue"] for queue in record["queues"]} == {"orders", "later"}


def test_a_round_that_fails_is_one_line_and_the_next_one_tries_again(
    data: Path, rounds: Rounds, without_spark: LocalRunner
) -> None:
    queue = stored(data, "orders")
    away = data.with_name("away")

    def fail(_: FileTask) -> None:
        raise SparkFailedError("Spark failed: gone")

    def begin_to_fail() -> None:
        away.rename(data)
        without_spark.before_task = fail
        queue.append(plain_messages(10, 50))

    def heal() -> None:
        without_spark.before_task = lambda _: None

    steps: list[Step] = [lambda: data.rename(away), begin_to_fail, heal]
    code, found, err = rounds.documents("--queue", "orders", steps=steps)
    assert code == 0
    assert [each["exit_code"] for each in found] == [0, 2, 1, 0]
    first, second = err.splitlines()
    assert " round 2: failed: data: " in first
    assert " round 3: failed: Spark failed: gone; next at " in second
    assert found[2]["error"] == "Spark failed: gone"
    assert [row["offset"] for row in written_rows(Path("out"))] == list(range(60))


def test_a_damaged_queue_fails_each_round_and_the_others_go_on(data: Path, rounds: Rounds) -> None:
    bad, good = stored(data, "bad", 300), stored(data, "good")
    flip_middle(bad.segments()[1])
    steps: list[Step] = [lambda: good.append(plain_messages(10, 50))]
    code, found, err = rounds.documents("--queue", "bad,good", steps=steps)
    assert code == 0
    assert [each["exit_code"] for each in found] == [5, 5]
    assert [statuses(each)["good"] for each in found] == ["exported", "exported"]
    assert err.count("--on-corrupt quarantine") == 2


@pytest.mark.parametrize(("option", "goes_on"), [("--queue", False), ("--pattern", True)])
def test_rounds_end_when_no_named_queue_is_left_that_can_be_exported(
    data: Path, rounds: Rounds, option: str, goes_on: bool
) -> None:
    queue = stored(data, "orders", 300)
    steps: list[Step] = [lambda: None]
    rounds.run("--queue", "orders", "--since", "earliest", steps=[])
    queue.append(plain_messages(300, 300), step=10)
    for segment in queue.segments()[:-1]:
        segment.unlink()
    code, found, err = rounds.documents(option, "orders", steps=steps)
    assert code == (0 if goes_on else 4)
    assert [each["exit_code"] for each in found] == [4, 4] if goes_on else [4]
    assert ("no queue is left that another round could export" in err) is not goes_on
    assert (found[-1]["next_at"] is None) is not goes_on


def test_a_lease_between_rounds_keeps_what_is_not_exported_yet(data: Path, rounds: Rounds) -> None:
    queue, bad = stored(data, "orders"), stored(data, "bad", 300)
    flip_middle(bad.segments()[1])
    seen: list[dict[str, int]] = []

    def look() -> None:
        seen.append(lows(data))

    def delete() -> None:
        look()
        shutil.rmtree(data / "metadata" / "queues")
        stored(data, "other")

    def grow() -> None:
        look()
        queue.append(plain_messages(30, 50))

    code, _, _ = rounds.run("--pattern", ".*", steps=[grow, delete, look])
    assert code == 0
    assert seen == [{"orders": 50}, {"orders": 80}, {"other": 50}]
    assert lows(data) == {}


def test_being_interrupted_in_a_round_leaves_nothing_behind(
    data: Path, rounds: Rounds, without_spark: LocalRunner
) -> None:
    stored(data, "orders")

    def interrupt(_: FileTask) -> None:
        raise KeyboardInterrupt

    without_spark.before_task = interrupt
    code, out, err = rounds.run("--queue", "orders")
    assert (code, out) == (130, "")
    assert err.splitlines()[-1].startswith("interrupted: ")
    assert lows(data) == {}
    assert not list(Path("out").rglob("job-*"))
    (record,) = read_records(data)
    assert record["exit_code"] == 130


def test_notes_of_a_round_name_their_queue(data: Path, rounds: Rounds) -> None:
    queue = stored(data, "orders")
    queue.skip(5)
    queue.append(plain_messages(10, 55))
    code, out, err = rounds.run("--queue", "orders")
    assert (code, out.count("\n")) == (0, 1)
    assert err == "note: queue orders: 5 offsets are not in the log: [50, 55)\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--every", "0.5s"), "at least 1s"),
        (("--every", "400d"), "at most 31d"),
        (("--every", "10"), "has no unit"),
        (("--dry-run",), "--dry-run"),
        (("--print-spark-submit",), "--print-spark-submit"),
        (("--until", "100"), "--until"),
        (("--since", "latest"), "--since latest"),
        (("--master", "spork://x"), "no master of Spark"),
        (("--spark-conf", "x=y"), "no setting of Spark"),
        (("--out", "memory://x"), "memory://"),
    ],
)
def test_options_that_no_round_can_use_are_refused_at_once(
    data: Path, rounds: Rounds, arguments: tuple[str, ...], complaint: str
) -> None:
    stored(data, "orders")
    code, out, err = rounds.run("--queue", "orders", *arguments)
    assert (code, out, rounds.pauses) == (2, "", [])
    assert complaint in err
    assert err.count("\n") == 1
