"""What `amqp-server offsets` refuses, and one group over all shards of an exchange."""

import re
from pathlib import Path

import pytest
from pamqp.commands import Queue

from amqp_server.control.offsets_client import ControlError, OffsetsClient
from cli.main import main
from offsets import CheckpointFailedError
from tests.amqp_client import connect
from tests.cli.stream_groups import (
    EXCHANGE,
    LOG,
    STREAM,
    WHERE,
    commit,
    make_shards,
    publish,
    refuse,
    rows,
    run,
)
from tests.servers import REPOSITORY, RunningServer
from tests.threaded_server import ThreadedServer


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


@pytest.fixture
def filled(server: RunningServer) -> RunningServer:
    """A server with ten messages in a stream."""
    publish(server, 10)
    return server


# Shards


def test_one_group_over_all_shards_of_an_exchange(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    make_shards(server, 12)
    run(capsys, "commit", "--queue", f"{EXCHANGE}-3", "--group", "g", "--to", "2")
    shards = ("--shards", EXCHANGE)
    found = rows(capsys, "show", *shards, "--group", "g")
    assert [(row["shard"], row["queue"]) for row in found] == [
        (shard, f"{EXCHANGE}-{shard}") for shard in range(12)
    ]
    assert [row["exists"] for row in found] == [shard == 3 for shard in range(12)]
    run(capsys, "seek", *shards, "--group", "g", "--to", "-1")
    found = rows(capsys, "list", *shards)
    assert [(row["group"], row["committed"], row["lag"]) for row in found] == [("g", 3, 1)] * 12
    page = run(capsys, "show", *shards, "--group", "g").splitlines()
    assert page[0].startswith("SHARD   COMMITTED    POSITION")
    assert [line.split()[:2] for line in page[1:]] == [[str(shard), "3"] for shard in range(12)]
    deleted = run(capsys, "delete", *shards, "--group", "g").splitlines()
    assert deleted[11] == (
        f"deleted group 'g' of shard 11, queue '{EXCHANGE}-11' in vhost '/', which was at commit 3"
    )
    assert rows(capsys, "list", *shards) == []


def test_what_one_shard_refuses_changes_none(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    make_shards(server, 3)
    run(capsys, "commit", "--queue", f"{EXCHANGE}-2", "--group", "g", "--to", "4")
    shards = ("--shards", EXCHANGE)
    complaint = refuse(capsys, 1, "commit", *shards, "--group", "g", "--to", "3")
    assert f"shard 2, queue '{EXCHANGE}-2': group 'g': " in complaint
    assert "would go back from 4" in complaint
    with pytest.raises(ControlError) as caught:
        OffsetsClient(server.storage_path).commit("g", 3, shards=EXCHANGE)
    assert caught.value.details == {"group": "g", "current": 4, "attempted": 3, "shard": 2}
    assert [row.get("committed") for row in rows(capsys, "list", *shards)] == [None, None, 4]


def test_a_set_of_shards_that_is_not_complete_is_refused(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shards", "create", EXCHANGE, "--shards", "3", "--type", "stream"]) == 0
    capsys.readouterr()
    shards = ("--shards", EXCHANGE)
    found = rows(capsys, "commit", *shards, "--group", "g", "--to", "0")
    assert [row["queue"] for row in found] == [f"{EXCHANGE}-{shard}" for shard in range(3)]
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Delete(queue=f"{EXCHANGE}-1"), Queue.DeleteOk)
        client.close()
    assert refuse(capsys, 1, "list", *shards) == (
        f"exchange '{EXCHANGE}' in vhost '/' lacks shard 1: queue '{EXCHANGE}-1'"
    )


# Refusals


def test_what_the_server_does_not_do_is_exit_code_1_and_says_why(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = "1 to 255 bytes of UTF-8 without control characters are expected"
    for arguments, complaint in (
        (["show", *LOG, "--group", "x"], f"no group 'x' on {WHERE}"),
        (["delete", *LOG, "--group", "x"], f"no group 'x' on {WHERE}"),
        (["show", *LOG], f"{WHERE} is a stream: a group is expected; it has none yet"),
        (["list", "--queue", "x"], "no queue 'x' in vhost '/'"),
        (["list", *LOG, "--vhost", "x"], "vhost 'x' does not exist"),
        (["list", "--shards", "x"], "no exchange 'x' in vhost '/'"),
        (
            ["list", "--shards", "amq.topic"],
            "exchange 'amq.topic' in vhost '/' is of type 'topic': "
            "only one of 'x-consistent-hash' has shards",
        ),
        (
            ["commit", *LOG, "--group", "a\nb", "--to", "1"],
            f"group name 'a\\nb' has a control character: {expected}",
        ),
        (
            ["show", *LOG, "--group", "x" * 256],
            f"group name '{'x' * 64}' has 256 bytes: {expected}",
        ),
        (["seek", *LOG, "--group", "", "--to", "1"], f"group name '' is empty: {expected}"),
        (["delete", *LOG, "--group", ""], f"group name '' is empty: {expected}"),
    ):
        assert refuse(capsys, 1, *arguments) == complaint


def test_an_ordinary_queue_has_no_groups(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.close()
    group = ["--queue", "q", "--group", "g"]
    for arguments in (
        ["list", "--queue", "q"],
        ["show", *group],
        ["commit", *group, "--to", "0"],
        ["seek", *group, "--to", "0"],
        ["delete", *group],
    ):
        complaint = refuse(capsys, 1, *arguments)
        assert complaint == "queue 'q' in vhost '/' is not a stream, so it has no groups"


def test_a_stream_names_its_groups_when_none_is_named(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        commit(capsys, 1, f"g{number}")
    assert refuse(capsys, 1, "show", *LOG).endswith("it has 'g0', 'g1', 'g2', 'g3', 'g4', ...")


def test_a_wrong_command_line_is_exit_code_2(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, complaint in (
        (["show", "--group", "g"], "write one of --queue and --shards"),
        (["list", *LOG, "--shards", "x"], "write one of --queue and --shards"),
        (["seek", *LOG, "--group", "g"], "Missing option '--to'"),
        (["seek", *LOG, "--group", "g", "--to", "soon"], "'soon' is no place in a log"),
        (["commit", *LOG, "--group", "g", "--to", "a\udcff"], "is no place in a log"),
        (["commit", *LOG, "--to", "1"], "Missing option '--group'"),
        (["show", "--queue", "a\udcff"], "is not UTF-8"),
        (["show", *LOG, "--group", "a\udcff"], "is not UTF-8"),
    ):
        assert complaint in refuse(capsys, 2, *arguments)


def test_without_a_server_it_is_exit_code_2(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.terminate()
    complaint = refuse(capsys, 2, "list", *LOG)
    assert complaint == f"no server is running on the data directory {server.storage_path}"


def test_a_stream_has_room_for_so_many_groups(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path / "data") as server:
        publish(server, 1)
        groups = server.server.broker.vhosts["/"].queues[STREAM].groups
        assert groups is not None
        server.call(lambda: setattr(groups, "_groups_max", 2))
        offsets = OffsetsClient(tmp_path / "data")
        for group in ("a", "b", "a"):
            offsets.commit(group, 0, queue=STREAM)
        for refused in (offsets.commit, offsets.seek):
            with pytest.raises(ControlError) as caught:
                refused("c", 0, queue=STREAM)
            assert caught.value.kind == "limit_reached"
            assert caught.value.reason == (
                f"no room for group 'c' on {WHERE}: it has 2 groups, as many as a log may have"
            )
        assert [place.group for place in offsets.list_groups(queue=STREAM)] == ["a", "b"]


def test_a_disk_that_refuses_is_told_of(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path / "data") as server:
        publish(server, 1)
        store = server.server.checkpoints
        write_round, error = store.write_round, CheckpointFailedError(tmp_path, OSError(5, "EIO"))

        def fail(*_: object, **__: object) -> None:
            raise error

        server.call(lambda: setattr(store, "write_round", fail))
        client_ = OffsetsClient(tmp_path / "data")
        with pytest.raises(ControlError) as caught:
            client_.commit("g", 1, queue=STREAM)
        assert caught.value.kind == "failed"
        assert "group 'g' is moved, but a crash could undo it: " in caught.value.reason
        server.call(lambda: setattr(store, "write_round", write_round))
        client_.commit("g", 1, queue=STREAM)


def test_the_table_of_errors_names_tests_that_there_are() -> None:
    page = (REPOSITORY / "docs" / "offsets.md").read_text()
    tables = page.partition("## 5.")[2].splitlines()
    rows_ = [row for row in tables if row.startswith("| ") and not row.startswith("| error |")]
    named = [re.search(r"\| `(\w+)` \|$", row) for row in rows_]
    files = [
        path
        for room in ("cli", "groups", "embedded")
        for path in sorted((REPOSITORY / "tests" / room).glob("test_*.py"))
    ]
    tests = "".join(path.read_text() for path in files)
    assert len(named) > 20
    assert all(found is not None and f"def test_{found[1]}(" in tests for found in named)
