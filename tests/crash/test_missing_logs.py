"""A start reports missing logs and ends of logs: the last checkpoint knows their length."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Queue

from amqp_server.control.offsets_client import OffsetsClient
from appendlog.files.filesystem import FileSystem
from offsets import decode_checkpoint, read_checkpoint
from tests.amqp_client import AmqpClient, connect
from tests.crash.messages import publish_confirmed
from tests.data_directories import fill, log_of, segments_of
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return where a data directory is to be; copies of it may lie beside it."""
    return tmp_path / "data"


@contextmanager
def channel_to(server: ThreadedServer) -> Iterator[AmqpClient]:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        yield client


def recovery_points(storage: Path) -> list[int]:
    """Return those that the checkpoint names, in ascending order."""
    found = read_checkpoint(storage / "offsets", FileSystem())
    return sorted(decode_checkpoint(entry).recovery_point for entry in found.entries.values())


def last_report(storage: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads((storage / "recovery.json").read_bytes())


def of_queue(storage: Path, name: str) -> Any:  # noqa: ANN401 - JSON
    """Return what the last start has reported of a queue."""
    (found,) = (each for each in last_report(storage)["queues"] if each["name"] == name)
    return found


def lose_log(storage: Path, queue: str) -> None:
    shutil.rmtree(log_of(storage, queue))


def lose_last_segment_and_end(storage: Path, queue: str) -> None:
    segments_of(storage, queue)[-1].unlink()
    (log_of(storage, queue) / "end").unlink()


def test_a_lost_log_is_reported_although_no_message_of_it_was_settled(storage: Path) -> None:
    fill(storage, a=6, b=6)
    assert recovery_points(storage) == [6, 6]
    lose_log(storage, "a")
    with ThreadedServer(storage) as server, channel_to(server) as client:
        report = last_report(storage)
        assert (report["outcome"], report["totals"]["lost_offsets"]) == ("damaged", 6)
        lost, other = of_queue(storage, "a"), of_queue(storage, "b")
        assert (lost["outcome"], lost["lost"], lost["groups_ahead"]) == ("damaged", [[0, 6]], [])
        assert (other["outcome"], other["lost"]) == ("clean", [])
        publish_confirmed(client, "a", range(3))
        queue = server.server.broker.vhosts["/"].queues["a"]
        assert server.call(lambda: queue.store.end_offset) == 9
    with ThreadedServer(storage) as server, channel_to(server) as client:
        # It is reported once; the report of the log itself stays.
        assert (last_report(storage)["outcome"], of_queue(storage, "a")["lost"]) == (
            "clean",
            [[0, 6]],
        )
        assert client.ready_count("a") == 3


def test_a_lost_log_is_reported_once_although_the_server_is_killed_after_that_start(
    storage: Path,
) -> None:
    fill(storage, a=6, b=6)
    lose_log(storage, "a")
    copy = storage.with_name("copy")
    with ThreadedServer(storage, offset_checkpoint_interval_seconds=0):
        assert last_report(storage)["outcome"] == "damaged"
        shutil.copytree(storage, copy, ignore=shutil.ignore_patterns("control.sock"))
    with ThreadedServer(copy):
        assert (last_report(copy)["outcome"], of_queue(copy, "a")["ready"]) == ("clean", 0)


def fill_segments(storage: Path, *, acked: int = 0) -> None:
    """Publish twenty messages to `a`, three to a segment; stop cleanly."""
    with ThreadedServer(storage, segment_bytes=64 * 1024) as server, channel_to(server) as client:
        client.declare("a")
        for number in range(20):
            client.publish(b"%d " % number + bytes(20_000), "a")
            client.expect_confirmed()
        for _ in range(acked):
            assert client.get("a") is not None


def test_a_lost_beginning_is_reported_once(storage: Path) -> None:
    """No note in the log can speak of it: the first round has to."""
    fill_segments(storage)
    first, second = segments_of(storage, "a")[:2]
    first.unlink()
    copy = storage.with_name("copy")
    with ThreadedServer(storage, offset_checkpoint_interval_seconds=0):
        assert of_queue(storage, "a")["lost"] == [[0, int(second.stem)]]
        shutil.copytree(storage, copy, ignore=shutil.ignore_patterns("control.sock"))
    with ThreadedServer(copy):
        found = of_queue(copy, "a")
        assert (found["outcome"], found["lost"]) == ("clean", [])


@pytest.mark.parametrize("acked", [0, 4])
def test_a_missing_last_segment_and_a_missing_end_file_are_reported(
    storage: Path, acked: int
) -> None:
    fill_segments(storage, acked=acked)
    base = int(segments_of(storage, "a")[-1].stem)
    assert acked < base < 20
    lose_last_segment_and_end(storage, "a")
    with ThreadedServer(storage) as server, channel_to(server) as client:
        assert of_queue(storage, "a")["lost"] == [[base, 20]]
        assert last_report(storage)["outcome"] == "damaged"
        assert client.ready_count("a") == base - acked
        queue = server.server.broker.vhosts["/"].queues["a"]
        assert server.call(lambda: queue.store.end_offset) == 20


def test_an_older_copy_of_a_log_is_reported_as_too_short(storage: Path) -> None:
    """Segments and `end` agree, and their offsets went on to be given to other messages."""
    fill(storage, a=3)
    shutil.copytree(log_of(storage, "a"), storage.with_name("old"))
    fill(storage, a=4)
    log = log_of(storage, "a")
    shutil.rmtree(log)
    storage.with_name("old").rename(log)
    with ThreadedServer(storage) as server, channel_to(server) as client:
        assert (of_queue(storage, "a")["lost"], client.ready_count("a")) == ([[3, 7]], 3)
        queue = server.server.broker.vhosts["/"].queues["a"]
        assert server.call(lambda: queue.store.end_offset) == 7
    with ThreadedServer(storage) as server, channel_to(server) as client:
        assert (last_report(storage)["outcome"], client.ready_count("a")) == ("clean", 3)


def test_a_round_records_the_queues_that_were_written_and_no_others(storage: Path) -> None:
    with (
        ThreadedServer(storage, offset_checkpoint_interval_seconds=0) as server,
        channel_to(server) as client,
    ):
        write = server.server.checkpointer.write_round
        for name in ("a", "b", "c"):
            client.declare(name)
        server.run(write)
        # None of the queues has a log yet.
        assert recovery_points(storage) == []
        publish_confirmed(client, "a", range(5))
        publish_confirmed(client, "b", range(2))
        assert (server.run(write).queues, recovery_points(storage)) == (2, [2, 5])
        assert (server.run(write).queues, server.run(write).written_bytes) == (0, 0)
        publish_confirmed(client, "b", range(2))
        assert (server.run(write).queues, recovery_points(storage)) == (1, [4, 5])


def test_the_first_round_after_a_crash_records_queues_that_no_earlier_round_recorded(
    storage: Path,
) -> None:
    copy = storage.with_name("copy")
    with (
        ThreadedServer(storage, offset_checkpoint_interval_seconds=0) as server,
        channel_to(server) as client,
    ):
        client.declare("a")
        client.declare("b")
        publish_confirmed(client, "a", range(5))
        publish_confirmed(client, "b", range(5))
        shutil.copytree(storage, copy, ignore=shutil.ignore_patterns("control.sock"))
    assert recovery_points(copy) == []
    with ThreadedServer(copy, offset_checkpoint_interval_seconds=0):
        assert recovery_points(copy) == [5, 5]
        again = storage.with_name("again")
        shutil.copytree(copy, again, ignore=shutil.ignore_patterns("control.sock"))
    lose_log(again, "a")
    with ThreadedServer(again):
        assert of_queue(again, "a")["lost"] == [[0, 5]]


def test_the_log_of_a_deleted_queue_is_not_reported_as_lost(storage: Path) -> None:
    with (
        ThreadedServer(storage, offset_checkpoint_interval_seconds=0) as server,
        channel_to(server) as client,
    ):
        client.declare("a")
        publish_confirmed(client, "a", range(5))
        server.run(server.server.checkpointer.write_round)
        client.call(Queue.Delete(queue="a"), Queue.DeleteOk)
        copy = storage.with_name("copy")
        # The log goes first, the queue's directory after it: a copy in between finds neither whole.
        server.wait_until(lambda: not any((storage / "logs").glob("*/*")))
        shutil.copytree(storage, copy, ignore=shutil.ignore_patterns("control.sock"))
    assert recovery_points(copy) == [5]
    with ThreadedServer(copy):
        assert last_report(copy)["outcome"] == "clean"
        assert recovery_points(copy) == []


@pytest.mark.parametrize("lose", [lose_log, lose_last_segment_and_end])
def test_a_lost_stream_is_reported_with_the_groups_that_were_ahead(
    storage: Path,
    lose: Any,  # noqa: ANN401 - a function of the directory and the queue
) -> None:
    with ThreadedServer(storage) as server, channel_to(server) as client:
        client.declare("s", arguments={"x-queue-type": "stream"})
        client.declare("other")
        publish_confirmed(client, "s", range(10))
        publish_confirmed(client, "other", range(1))
        offsets = OffsetsClient(storage)
        offsets.commit("done", 10, queue="s")
        offsets.commit("half", 5, queue="s")
        offsets.commit("new", 0, queue="s")
    lose(storage, "s")
    with ThreadedServer(storage) as server, channel_to(server) as client:
        found = of_queue(storage, "s")
        assert (found["outcome"], found["lost"]) == ("damaged", [[0, 10]])
        assert found["groups_ahead"] == [
            {"group": "done", "settled_end": 10},
            {"group": "half", "settled_end": 5},
        ]
        publish_confirmed(client, "s", range(1))
        groups = {each.group: each for each in OffsetsClient(storage).list_groups(queue="s")}
        assert (groups["done"].start, groups["done"].lag) == (10, 1)
    with ThreadedServer(storage):
        assert of_queue(storage, "s")["groups_ahead"] == []
        assert last_report(storage)["outcome"] == "clean"
