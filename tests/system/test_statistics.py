"""The numbers of a queue after a known scenario, in every command that shows them."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.control.client import ask
from appendlog import LogReader
from cli.main import main
from offsets import LogRoot
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer
from tests.system.test_stream_retention import consume_from, fill, running, two_rounds
from tests.threaded_server import ThreadedServer

SINCE_START = ("appended", "delivered", "redelivered", "acked", "dropped")
OF_THE_LOG = (
    "records",
    "disk_bytes",
    "segments",
    "first_offset",
    "last_offset",
    "first_timestamp_ns",
    "last_timestamp_ns",
)


def asked(path: Path, queue: str = "q") -> Any:  # noqa: ANN401
    """Return what the running server says."""
    (row,) = ask(path, "queues.stats", vhost="/", queue=queue, after="", limit=1)["queues"]
    return row


def shown(capsys: pytest.CaptureFixture[str], path: Path, queue: str = "q") -> Any:  # noqa: ANN401
    """Return what the command shows, from the server or from the files."""
    assert main(["stats", "--queue", queue, "--json", "--storage-path", str(path)]) == 0
    return json.loads(capsys.readouterr().out)


def traffic(row: dict[str, Any]) -> list[int | None]:
    return [row[name] for name in SINCE_START]


def of_the_log(row: dict[str, Any]) -> list[int | None]:
    return [row[name] for name in OF_THE_LOG]


def take(client: AmqpClient, count: int) -> int:
    """Take deliveries; return the tag of the last one."""
    return [client.expect_delivery() for _ in range(count)][-1].tag


def test_the_counters_of_a_queue_count_since_the_start_of_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadedServer(tmp_path), connect(address(tmp_path)) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(100):
            client.publish(b"%d" % number, "q")
        client.expect_confirmed()
        with connect(address(tmp_path)) as member:
            member.open_channel()
            member.consume("q", prefetch=60)
            assert take(member, 60) == 60
            member.send(Basic.Ack(40, multiple=True))
            # 40 come instead of those.
            assert take(member, 40) == 100
            for tag in range(41, 46):
                member.send(Basic.Nack(tag, requeue=False))
            member.call(Basic.Qos(prefetch_count=60), Basic.QosOk)
            assert traffic(asked(tmp_path)) == [100, 100, 0, 40, 5]
        client.consume("q", prefetch=55)
        last = take(client, 55)
        client.send(Basic.Ack(last, multiple=True))
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        row = asked(tmp_path)
        assert traffic(row) == [100, 155, 55, 95, 5]
        assert (row["records"], row["first_offset"], row["last_offset"]) == (100, 0, 99)
        assert row["damaged_chunks"] == 0
        assert comparable(shown(capsys, tmp_path)) == comparable(asked(tmp_path))
    with LogReader(next((tmp_path / "logs").rglob("*.log")).parent) as reader:
        (batch,) = reader.read(0, 100)
        times = [batch.timestamps_ns[0], batch.timestamps_ns[-1]]
    assert [row["first_timestamp_ns"], row["last_timestamp_ns"]] == times


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Return what does not move by itself."""
    assert row.pop("checkpoint_age_seconds") >= 0
    return row


def address(path: Path) -> tuple[str, int]:
    status = ask(path, "status")
    return status["host"], status["port"]


def test_messages_taken_with_get_are_counted_like_deliveries(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path), connect(address(tmp_path)) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(5):
            client.publish(b"%d" % number, "q")
        client.expect_confirmed()
        client.get("q", no_ack=True)
        message = client.get("q", no_ack=False)
        assert message is not None
        client.send(Basic.Nack(message.tag, requeue=True))
        client.get("q", no_ack=True)
        assert traffic(asked(tmp_path)) == [5, 3, 1, 2, 0]
        client.consume("q", no_ack=True)
        take(client, 3)
        assert traffic(asked(tmp_path)) == [5, 6, 1, 5, 0]


def test_purged_and_expired_messages_count_as_dropped(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path), connect(address(tmp_path)) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-max-length": 3})
        for number in range(5):
            client.publish(b"%d" % number, "q")
        client.expect_confirmed()
        assert client.ready_count("q") == 3
        assert traffic(asked(tmp_path)) == [5, 0, 0, 0, 2]
        client.get("q", no_ack=True)
        client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
        assert traffic(asked(tmp_path)) == [5, 1, 0, 1, 4]


@pytest.mark.parametrize("stop", [RunningServer.terminate, RunningServer.kill])
def test_the_stopped_directory_shows_the_same_numbers(
    start_server: StartServer,
    capsys: pytest.CaptureFixture[str],
    stop: Callable[[RunningServer], object],
) -> None:
    server = start_server("--segment-bytes", str(1 << 20))
    path = server.storage_path
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for _ in range(30):
            client.publish(bytes(100_000), "q")
            client.expect_confirmed()
        client.get("q", no_ack=True)
        live = asked(path)
    assert live["segments"] == 3

    stop(server)

    stored = shown(capsys, path)
    assert stored["state"] == "stopped"
    assert of_the_log(stored) == of_the_log(live)
    assert traffic(stored) == [None] * 5
    server.restart()
    again = asked(path)
    assert of_the_log(again) == of_the_log(live)
    assert traffic(again) == [0] * 5


def test_a_stream_counts_the_deliveries_of_all_readers_and_what_retention_removed(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 60, {"x-max-length-bytes": 250_000})
        consume_from(client, "first", prefetch=10)
        tag = take(client, 10)
        client.send(Basic.Ack(tag - 4, multiple=True))
        assert take(client, 6) == 16
        consume_from(client, "first", prefetch=5, channel=2)
        for _ in range(5):
            client.expect_delivery(2)
        assert traffic(asked(tmp_path, "s")) == [60, 21, 0, 6, 0]
        two_rounds(server)
        log = next(iter(server.server.broker.vhosts["/"].queues.values())).store.log
        server.wait_until(lambda: log.log_start_offset > 0)
        start = log.log_start_offset
        row = asked(tmp_path, "s")
        assert traffic(row) == [60, 21, 0, 6, start]
        assert (row["records"], row["first_offset"], row["last_offset"]) == (60 - start, start, 59)


def test_an_empty_queue_has_no_first_and_no_last_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadedServer(tmp_path), connect(address(tmp_path)) as client:
        client.open_channel()
        client.declare("q")
        expected = [0, 0, 0, None, None, None, None]
        assert of_the_log(asked(tmp_path)) == expected
    assert of_the_log(shown(capsys, tmp_path)) == expected


def test_the_deliveries_of_a_group_are_included_in_those_of_its_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 20, {})
        consume_from(client, "first", prefetch=5)
        take(client, 5)
        first = {"x-consumer-group": "g", "x-stream-offset": "first"}
        with connect(server.address) as member:
            member.open_channel()
            member.consume("s", prefetch=10, arguments=first)
            tag = take(member, 10)
            member.send(Basic.Ack(tag - 6, multiple=True))
            take(member, 4)
            member.send(Basic.Nack(tag - 5, requeue=False))
            take(member, 1)
            # What it leaves is ready before the close is answered, and so before what follows.
            member.close()
        client.open_channel(2)
        client.consume("s", prefetch=10, arguments=first, channel=2)
        redelivered = [client.expect_delivery(2).redelivered for _ in range(10)]
        assert redelivered == [True] * 10
        server.run(server.server.checkpointer.write_round)

        assert traffic(asked(tmp_path, "s")) == [20, 30, 10, 4, 0]
        show = ["offsets", "show", "--queue", "s", "--group", "g", "--json"]
        assert main([*show, "--storage-path", str(tmp_path)]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        names = ("delivered", "acked", "redelivered", "rejected", "committed", "unacked")
        assert [row[name] for name in names] == [25, 4, 10, 1, 5, 10]
        assert row["checkpoint_age_seconds"] < 60


def test_the_embedded_library_shows_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LogRoot.open(tmp_path) as root:
        writer = root.log("q")
        assert writer.log_statistics().records == 0
        root.append_batch("q", [b"x"] * 100)
        writer.sync()
        shown_here = writer.log_statistics().as_json()
        whole = asdict(root.statistics()["q"])
    assert (shown_here["records"], shown_here["first_offset"], shown_here["last_offset"]) == (
        100,
        0,
        99,
    )
    assert of_the_log(shown(capsys, tmp_path)) == list(shown_here.values()) == of_the_log(whole)
    stored = shown(capsys, tmp_path)
    for name in ("log_start_offset", "recovery_point"):
        assert stored[name] == whole[name]
    with ThreadedServer(tmp_path):
        assert asked(tmp_path)["log_end_offset"] == whole["log_end_offset"]
        assert of_the_log(asked(tmp_path)) == list(shown_here.values())
