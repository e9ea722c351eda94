"""A part of the data directory is gone: every tool says so, and `recover --accept-loss` goes on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Queue

from amqp_server.base.errors import StartupError
from cli.main import main
from offsets import Consumer, LogRoot
from tests.amqp_client import connect
from tests.cli.test_verify import kinds, verify
from tests.data_directories import fill, log_of, snapshot, take
from tests.threaded_server import ThreadedServer

Lose = Callable[[Path], None]
ALL = [b"m%d" % number for number in range(6)]


@pytest.fixture
def storage(tmp_path: Path, clean_environment: pytest.MonkeyPatch) -> Path:
    """A data directory after a clean stop: queues `a` and `b`, of whose messages `a` gave two."""
    path = tmp_path / "data"
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(path))
    fill(path, a=6, b=6)
    with ThreadedServer(path) as server, connect(server.address) as client:
        client.open_channel()
        for _ in range(2):
            assert client.get("a") is not None
    return path


def remove_logs(storage: Path) -> None:
    shutil.rmtree(storage / "logs")


def empty_logs(storage: Path) -> None:
    """Leave what a disk that is not mounted leaves: the place of it."""
    shutil.rmtree(storage / "logs")
    (storage / "logs").mkdir()


def remove_logs_of_all_vhosts(storage: Path) -> None:
    shutil.rmtree(storage / "logs" / "%2f")
    (storage / "logs" / "%2f").mkdir()


def remove_definitions(storage: Path) -> None:
    shutil.rmtree(storage / "metadata")


def empty_definitions(storage: Path) -> None:
    for path in (storage / "metadata").rglob("*.json"):
        path.unlink()


def remove_definitions_and_logs(storage: Path) -> None:
    remove_definitions(storage)
    remove_logs(storage)


def remove_checkpoints(storage: Path) -> None:
    shutil.rmtree(storage / "offsets")


def empty_checkpoints(storage: Path) -> None:
    remove_checkpoints(storage)
    (storage / "offsets").mkdir()


LOSSES = [
    (remove_logs, "logs"),
    (empty_logs, "logs"),
    (remove_logs_of_all_vhosts, "logs"),
    (remove_definitions, "metadata"),
    (empty_definitions, "metadata"),
    (remove_definitions_and_logs, "metadata"),
    (remove_checkpoints, "offsets"),
    (empty_checkpoints, "offsets"),
]
KINDS = {
    "logs": "missing-logs",
    "metadata": "missing-definitions",
    "offsets": "missing-checkpoints",
}


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    written = capsys.readouterr()
    assert written.err == ""
    return code, json.loads(written.out)


@pytest.mark.parametrize(("lose", "part"), LOSSES)
def test_every_tool_refuses_as_the_start_does_and_names_the_way_on(
    storage: Path, capsys: pytest.CaptureFixture[str], lose: Lose, part: str
) -> None:
    lose(storage)
    before = snapshot(storage)
    command = f"amqp-server recover --accept-loss --storage-path {storage}"
    with pytest.raises(StartupError) as refused, ThreadedServer(storage):
        pass
    line = refused.value.message
    assert line.startswith(f"{storage / part} is empty or missing, but ")
    assert line.endswith(command)
    assert "\n" not in line
    for arguments in (["recover"], ["recover", "--dry-run"]):
        assert main(arguments) == 2
        written = capsys.readouterr()
        assert (written.out, written.err) == ("", f"amqp-server: error: {line}\n")
    code, found = verify(capsys)
    assert (code, found["outcome"]) == (5, "unopened")
    assert found["problems"][0]["text"] == line
    assert [each["kind"] for each in found["problems"]] == [KINDS[part]]
    code, planned = run_json(capsys, "repair", "--dry-run")
    assert code == 5
    assert [step["reason"] for step in planned["steps"] if "mended" in step["remedy"]] == [line]
    code, done = run_json(capsys, "repair", "--yes")
    assert (code, [step["reason"] for step in done["left"]]) == (5, [line])
    for path in (storage / name for name in KINDS):
        # Nothing was taken for the rest of something else.
        after = {name: each for name, each in snapshot(storage).items() if path.name in name}
        assert after == {name: each for name, each in before.items() if path.name in name}


def test_logs_that_are_given_up_are_lost_and_go_on_behind_that(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_logs(storage)
    before = snapshot(storage)
    tried = run_json(capsys, "recover", "--accept-loss", "--dry-run")
    assert snapshot(storage) == before
    code, report = run_json(capsys, "recover", "--accept-loss")
    assert (tried[0], tried[1]["queues"][0]["lost"]) == (code, report["queues"][0]["lost"])
    assert (code, report["outcome"], report["totals"]["lost_offsets"]) == (4, "damaged", 10)
    assert {each["name"]: each["lost"] for each in report["queues"]} == {
        "a": [[2, 6]],
        "b": [[0, 6]],
    }
    assert [each["part"] for each in report["given_up"]] == ["logs"]
    assert verify(capsys)[0] == 0
    assert run_json(capsys, "recover", "--dry-run")[1]["outcome"] == "clean"
    fill(storage, a=1)
    assert take(storage, "a") == [b"m0"]
    with ThreadedServer(storage) as server:
        queues = server.server.broker.vhosts["/"].queues
        assert [queues[name].store.end_offset for name in ("a", "b")] == [7, 6]


def test_logs_whose_definitions_are_given_up_are_lost_and_kept_aside(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = sorted(path.read_bytes() for path in storage.glob("logs/*/*/*/*.log"))
    remove_definitions(storage)
    before = snapshot(storage)
    code, tried = run_json(capsys, "recover", "--accept-loss", "--dry-run")
    assert (code, snapshot(storage)) == (4, before)
    code, report = run_json(capsys, "recover", "--accept-loss")
    for each in (tried, report):
        assert (each["outcome"], each["totals"]["lost_offsets"]) == ("damaged", 10)
        assert {queue["name"]: queue["lost"] for queue in each["queues"]} == {
            "a": [[2, 6]],
            "b": [[0, 6]],
        }
        assert each["removed_logs"] == 0
    assert code == 4
    kept = [path for path in (storage / "quarantine").rglob("*.log") if "logs" in path.parts]
    assert sorted(path.read_bytes() for path in kept) == contents
    assert all("quarantine" in queue["directory"] for queue in report["queues"])
    assert verify(capsys)[0] == 0
    with ThreadedServer(storage) as server:
        assert list(server.server.broker.vhosts) == ["/"]
        assert not server.server.broker.vhosts["/"].queues
    assert run_json(capsys, "recover", "--last")[1]["outcome"] == "clean"


def test_without_its_checkpoints_everything_comes_again_once(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_checkpoints(storage)
    code, report = run_json(capsys, "recover", "--accept-loss")
    assert (code, report["outcome"], report["totals"]["ready"]) == (4, "damaged", 12)
    assert main(["recover", "--last"]) == 4
    assert "given up: " in capsys.readouterr().out
    assert run_json(capsys, "recover", "--dry-run")[1]["outcome"] == "clean"
    assert take(storage, "a") == ALL
    assert take(storage, "a") == []


def test_several_parts_are_named_in_one_line_and_given_up_together(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_definitions_and_logs(storage)
    remove_checkpoints(storage)
    assert main(["recover"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == complaint.count("--accept-loss") == 1
    assert "put the definitions and the checkpoints back" in complaint
    assert run_json(capsys, "recover", "--accept-loss")[0] == 4
    assert run_json(capsys, "recover")[0] == 0


def test_without_anything_to_accept_it_only_recovers(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = run_json(capsys, "recover", "--accept-loss")
    assert (code, report["outcome"], report["given_up"]) == (0, "clean", [])
    # It is nothing that stays.
    remove_logs(storage)
    assert main(["recover"]) == 2
    capsys.readouterr()
    assert main(["recover", "--accept-loss", "--last"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_path_that_a_shell_would_split_is_quoted(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = storage.with_name("my data")
    storage.rename(other)
    remove_checkpoints(other)
    assert main(["recover", "--storage-path", str(other)]) == 2
    assert f"--storage-path '{other}'" in capsys.readouterr().err


def test_names_that_would_break_the_line_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = tmp_path / "data"
    fill(storage, **{"a\x0bb": 1})
    remove_logs(storage)
    assert main(["recover", "--storage-path", str(storage)]) == 2
    complaint = capsys.readouterr().err
    assert len(complaint.splitlines()) == 1
    assert r"of queue 'a\x0bb' in vhost '/':" in complaint


def test_one_log_of_several_is_reported_and_not_refused(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(log_of(storage, "a"))
    code, found = verify(capsys)
    assert (code, kinds(found)) == (4, ["checkpoint-leads", "end-missing"])
    (problem,) = (each for each in found["queues"][0]["problems"] if each["offsets"])
    assert (problem["kind"], problem["offsets"]) == ("end-missing", [2, 6])
    assert main(["recover", "--dry-run"]) == 4
    assert "a in /: 1 damaged, 0 B; lost 4 offsets: [2, 6)" in capsys.readouterr().out


def test_a_directory_in_which_nothing_was_published_has_no_logs_to_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = tmp_path / "data"
    fill(storage, a=0)
    assert not (storage / "logs").exists()
    assert main(["recover", "--storage-path", str(storage)]) == 0
    capsys.readouterr()


def test_a_deleted_queue_is_no_reason_to_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, copy = tmp_path / "data", tmp_path / "copy"
    settings: dict[str, Any] = {"offset_checkpoint_interval_seconds": 0.0}
    with (
        ThreadedServer(storage, **settings) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("empty")
        client.declare("q")
        client.publish(b"m", "q")
        client.expect_confirmed()
        server.run(server.server.checkpointer.write_round)
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        server.wait_until(lambda: not any((storage / "logs").glob("*/*/*")))
        # Its empty directories may go in the meantime, so nothing of the logs is copied.
        shutil.copytree(storage, copy, ignore=shutil.ignore_patterns("control.sock", "logs"))
    assert main(["verify", "--storage-path", str(copy)]) == 0
    assert main(["recover", "--storage-path", str(copy)]) == 0
    capsys.readouterr()


def test_a_directory_without_a_server_is_one_that_no_checkpoint_is_missed_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LogRoot.open(tmp_path) as root:
        root.append("events", b"one")
        root.sync()
    assert main(["recover", "--storage-path", str(tmp_path)]) == 0
    capsys.readouterr()


def test_the_logs_of_programs_without_a_server_are_missed_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LogRoot.open(tmp_path) as root:
        root.append("events", b"one")
        root.sync()
        with Consumer(root.path, "g", "*") as consumer:
            assert consumer.poll() is not None
    remove_logs(tmp_path)
    assert main(["recover", "--storage-path", str(tmp_path)]) == 2
    assert "of queue 'events' in vhost '/'" in capsys.readouterr().err
    assert main(["recover", "--accept-loss", "--storage-path", str(tmp_path)]) == 4
    assert "lost 1 offsets: [0, 1)" in capsys.readouterr().out
