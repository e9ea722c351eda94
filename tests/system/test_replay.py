"""A replay appends settled messages to a queue again, unchanged."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.control.client import ControlError, UnreachableError, ask
from amqp_server.control.protocol import ErrorKind
from amqp_server.control.queue_client import QueueClient
from tests.amqp_client import AmqpClient, Message, connect
from tests.crash.full_disk import FullDisk
from tests.servers import RunningServer
from tests.system.test_retention import do_rounds, fill, take
from tests.system.watched import FINE, LIMITS, LOW_DISK, SetSensor, Watched
from tests.threaded_server import ThreadedServer

RETAINED = {"x-retain-for": 3_600_000}
Progress = dict[str, Any]


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as connected:
        connected.open_channel(confirms=True)
        yield connected


@pytest.fixture
def queues(server: RunningServer) -> QueueClient:
    return QueueClient(server.storage_path)


def publish(client: AmqpClient, *bodies: bytes, queue: str = "q", **properties: Any) -> None:  # noqa: ANN401
    for body in bodies:
        client.publish(body, queue, properties=Basic.Properties(delivery_mode=2, **properties))
    client.expect_confirmed()


def drain(client: AmqpClient, queue: str = "q") -> list[Message]:
    """Take all that is ready."""
    messages = []
    while (message := client.get(queue)) is not None:
        messages.append(message)
    return messages


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


class Alarmed:
    """A server with a client, and replays that wait for an alarm while something happens."""

    def __init__(self, storage_path: Path, server: ThreadedServer, sensor: SetSensor) -> None:
        self.storage_path = storage_path
        self.server = server
        self.watched = Watched(server, sensor)
        self.client = connect(server.address)
        self.client.open_channel(confirms=True)
        self.progress: list[Progress] = []

    def publish(self, *bodies: bytes) -> None:
        publish(self.client, *bodies)

    def replay(self, during: Callable[[], object], **arguments: Any) -> Progress:  # noqa: ANN401
        """Replay `q`, and do something right after the replay has begun."""
        self.watched.see(LOW_DISK)

        def note(progress: Progress) -> None:
            self.progress.append(progress)
            if len(self.progress) == 1:
                during()
                if not self.server.server.connections.is_closing:
                    self.watched.see(FINE)

        request = {"start": "first", **arguments}
        return QueueClient(self.storage_path).replay("q", on_progress=note, **request)


@pytest.fixture
def alarmed(tmp_path: Path) -> Iterator[Alarmed]:
    sensor = SetSensor()
    server = ThreadedServer(
        tmp_path, limits=LIMITS, sensor=sensor, offset_checkpoint_interval_seconds=0
    )
    with server:
        made = Alarmed(tmp_path, server, sensor)
        with made.client:
            yield made


def test_a_replay_appends_settled_messages_unchanged(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    own: Any = {"content_type": "text/plain", "message_id": "m1", "priority": 3}
    publish(client, b"a", b"b", headers={"own": 1}, **own)
    publish(client, b"c")
    first = drain(client)[0]
    publish(client, b"d")
    begun = int(time.time())
    done = queues.replay("q", start="first")
    assert (done["replayed"], done["first_offset"], done["last_offset"]) == (3, 0, 2)
    assert (done["start"], done["until"], done["next"]) == (0, 4, 4)
    again = drain(client)
    assert bodies(again) == [b"d", b"a", b"b", b"c"]
    message = again[1]
    assert not message.redelivered
    assert isinstance(message.method, Basic.GetOk)
    assert (message.method.exchange, message.method.routing_key) == ("", "q")
    headers: Any = message.properties.headers
    assert (headers["own"], headers["x-replayed-from"], headers["x-replayed-offset"]) == (1, "q", 0)
    assert headers["x-replayed-at"].timestamp() >= begun
    for name in (*own, "delivery_mode"):
        assert getattr(message.properties, name) == getattr(first.properties, name)


def publish_transient(client: AmqpClient, *bodies: bytes) -> None:
    """Publish messages that are confirmed before they are on the disk."""
    for body in bodies:
        client.publish(body, "q", properties=Basic.Properties(delivery_mode=1))
    client.expect_confirmed()


def test_messages_that_are_not_synced_yet_are_replayed_too(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    client.declare("other")
    publish_transient(client, *(b"%d" % number for number in range(40)))
    assert len(drain(client)) == 40
    assert queues.replay("q", start="first", to="other")["replayed"] == 40


def test_messages_that_are_not_synced_yet_are_moved_too(
    client: AmqpClient, server: RunningServer
) -> None:
    client.declare("q")
    client.declare("other")
    publish_transient(client, *(b"%d" % number for number in range(40)))
    moved = ask(server.storage_path, "queues.move", vhost="/", queue="q", to="other")
    assert moved["moved"] == 40
    assert client.ready_count("other") == 40


def test_a_second_replay_reports_its_own_progress_only(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    publish(client, b"a")
    drain(client)
    queues.replay("q", start="first")
    drain(client)
    assert queues.replay("q", start="1")["replayed"] == 1
    (message,) = drain(client)
    headers: Any = message.properties.headers
    assert headers["x-replayed-offset"] == 1
    assert len(headers) == 3


def test_the_replay_of_an_empty_queue_ends_at_once(client: AmqpClient, queues: QueueClient) -> None:
    client.declare("q", arguments=RETAINED)
    done = queues.replay("q", start="first")
    numbers = ("start", "until", "next", "replayed", "replayed_bytes", "passed")
    assert [done[name] for name in numbers] == [0] * 6
    assert (done["first_offset"], done["last_offset"], done["is_waiting"]) == (None, None, False)


def test_a_replay_into_another_queue_leaves_the_source_unchanged(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    client.declare("again", durable=False)
    publish(client, b"a", b"b", b"c", b"d")
    assert client.get("q") is not None
    held = client.get("q", no_ack=False)
    assert held is not None
    assert queues.replay("q", start="first", to="again")["replayed"] == 1
    assert bodies(drain(client, "again")) == [b"a"]
    assert queues.replay("q", start="first", to="again", includes_all=True)["replayed"] == 4
    assert bodies(drain(client, "again")) == [b"a", b"b", b"c", b"d"]
    assert client.ready_count("q") == 2
    client.send(Basic.Reject(held.tag, requeue=True))
    left = drain(client)
    assert [(each.body, each.redelivered) for each in left] == [
        (b"b", True),
        (b"c", False),
        (b"d", False),
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"start": "2", "until": "4"}, "cd"),
        ({"start": "-3"}, "fgh"),
        ({"start": "1h"}, "abcdefgh"),
        ({"start": "1h", "until": "1h"}, ""),
        ({"start": "first", "filters": ["kind=odd"]}, "bdfh"),
        ({"start": "first", "filters": ["kind=odd", "n=3"]}, "d"),
        ({"start": "8"}, ""),
        ({"start": "next"}, ""),
    ],
)
def test_a_replay_can_be_limited_to_a_range(
    client: AmqpClient, queues: QueueClient, arguments: dict[str, Any], expected: str
) -> None:
    client.declare("q", arguments=RETAINED)
    for number, body in enumerate("abcdefgh"):
        headers = {"kind": "odd" if number % 2 else "even", "n": number}
        publish(client, body.encode(), headers=headers)
    drain(client)
    dry = queues.replay("q", is_dry_run=True, **arguments)
    assert client.ready_count("q") == 0
    done = queues.replay("q", **arguments)
    assert b"".join(bodies(drain(client))).decode() == expected
    assert dry["replayed"] == done["replayed"] == len(expected)
    looked_at = done["until"] - done["start"]
    assert dry["passed"] == done["passed"] == looked_at - len(expected)
    assert (dry["is_dry_run"], done["is_dry_run"]) == (True, False)


def test_messages_that_are_settled_while_it_runs_are_not_replayed(alarmed: Alarmed) -> None:
    """Else a consumer would get again what it has just acknowledged."""
    client = alarmed.client
    client.declare("q", arguments=RETAINED)
    client.declare("again")
    alarmed.publish(b"a", b"b")
    assert client.get("q") is not None
    done = alarmed.replay(lambda: drain(client), to="again")
    assert client.ready_count("q") == 0
    assert done["replayed"] == client.ready_count("again") == 1


def test_a_long_replay_runs_in_parts_and_keeps_the_order(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    client.declare("again")
    publish(client, *(b"%d" % number for number in range(3000)))
    assert client.call(Queue.Purge(queue="q"), Queue.PurgeOk).message_count == 3000
    progress: list[Progress] = []
    done = queues.replay("q", start="500", to="again", on_progress=progress.append)
    assert done["replayed"] == 2500
    assert progress
    assert all(500 <= each["next"] <= 3000 for each in progress)
    assert bodies(drain(client, "again")) == [b"%d" % number for number in range(500, 3000)]


def test_a_replay_into_the_same_queue_ends_where_it_ended_when_it_began(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    publish(client, *([bytes(1000)] * 2000))
    client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
    client.open_channel(2)
    client.consume("q", no_ack=True, channel=2)
    done = queues.replay("q", start="first", includes_all=True)
    assert (done["replayed"], done["until"]) == (2000, 2000)
    for _ in range(2000):
        client.expect_delivery(2)
    assert client.ready_count("q") == 0


def test_a_stream_is_replayed_into_a_queue_and_a_queue_into_a_stream(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("s", arguments={"x-queue-type": "stream"})
    client.declare("q", arguments=RETAINED)
    publish(client, b"a", b"b", b"c", queue="s")
    assert queues.replay("s", start="1", to="q")["replayed"] == 2
    assert bodies(drain(client)) == [b"b", b"c"]
    assert queues.replay("q", start="first", to="s")["replayed"] == 2
    found = [row["body"] for row in queues.browse("s")]
    assert found == ["a", "b", "c", "b", "c"]


def test_a_replay_restarts_lifetimes_and_keeps_priorities(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments={"x-max-priority": 5, **RETAINED})
    publish(client, b"low", priority=1, expiration="3600000")
    publish(client, b"high", priority=4)
    drain(client)
    assert queues.replay("q", start="first")["replayed"] == 2
    again = drain(client)
    assert bodies(again) == [b"high", b"low"]
    assert again[1].properties.expiration == "3600000"


def test_a_replay_replaces_malformed_headers_and_keeps_the_message(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    publish(client, b"a", headers={"own": 1})
    drain(client)
    publish(client, b"b")
    assert queues.replay("q", start="first", filters=["own=1"])["replayed"] == 1


def test_a_replay_waits_while_an_alarm_is_on(alarmed: Alarmed) -> None:
    alarmed.client.declare("q", arguments=RETAINED)
    alarmed.publish(b"a")
    drain(alarmed.client)
    done = alarmed.replay(lambda: None)
    assert (alarmed.progress[0]["is_waiting"], alarmed.progress[0]["replayed"]) == (True, 0)
    assert (done["is_waiting"], done["replayed"]) == (False, 1)


def test_a_disconnecting_client_stops_its_replay_and_the_log_says_how_far_it_came(
    alarmed: Alarmed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    alarmed.client.declare("q", arguments=RETAINED)
    alarmed.publish(b"a")
    drain(alarmed.client)
    broker = alarmed.server.server.broker
    queue = broker.vhosts["/"].queues["q"]

    class GoneError(Exception):
        """The client goes."""

    def go() -> None:
        assert alarmed.server.call(lambda: broker.retention_pins.low_offset(queue)) == 0
        raise GoneError

    with pytest.raises(GoneError):
        alarmed.replay(go)
    alarmed.server.wait_until(lambda: broker.retention_pins.low_offset(queue) is None)
    stopped = "replay stopped, its client is gone queue=q vhost=/ to=q from=0 next=0 until=1"
    assert any(stopped in record.getMessage() for record in caplog.records)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    alarmed.watched.see(FINE)
    assert QueueClient(alarmed.storage_path).replay("q", start="0")["replayed"] == 1


def test_a_replay_pins_its_segments_and_releases_them_behind_it(alarmed: Alarmed) -> None:
    server = alarmed.server
    fill(alarmed.client, 61, {})
    fill(alarmed.client, 1, {}, "again")
    take(alarmed.client, server, 61)
    queue = server.server.broker.vhosts["/"].queues["q"]

    def retain() -> None:
        do_rounds(server)
        # The segment with the offset 20 begins at 18.
        assert queue.store.log.log_start_offset == 18

    assert alarmed.replay(retain, start="20", to="again")["replayed"] == 41
    do_rounds(server)
    assert queue.store.log.log_start_offset == 60
    found = QueueClient(alarmed.storage_path).browse("again", start="1", body_bytes_max=4)
    assert [row["body"] for row in found] == [f"{number:04}" for number in range(20, 61)]


@pytest.mark.parametrize(
    ("arguments", "kind", "reason"),
    [
        ({"queue": "nope"}, ErrorKind.NOT_FOUND, "no queue 'nope' in vhost '/'"),
        ({"to": "nope"}, ErrorKind.NOT_FOUND, "no queue 'nope' in vhost '/'"),
        ({"vhost": "nope"}, ErrorKind.NOT_FOUND, "vhost 'nope' does not exist"),
        (
            {"start": "4"},
            ErrorKind.INVALID_ARGUMENT,
            "start: offset 4 is not kept: queue 'q' has the offsets from 0 to 3, 3 not included",
        ),
        ({"until": "9"}, ErrorKind.INVALID_ARGUMENT, "until: offset 9 is not kept"),
        ({"start": "2", "until": "1"}, ErrorKind.INVALID_ARGUMENT, "is above the end"),
        ({"start": "soon"}, ErrorKind.INVALID_ARGUMENT, "start: 'soon' is no place in a log"),
        ({"filters": ["x"]}, ErrorKind.INVALID_ARGUMENT, "filters: 'x' is not a filter"),
        ({"queue": "s"}, ErrorKind.FAILED, "is a stream, which keeps all it has: consume it"),
        ({"queue": "s", "to": "s"}, ErrorKind.FAILED, "is a stream, which keeps all it has"),
        ({"to": "full"}, ErrorKind.FAILED, "queue 'full' is full and refuses more"),
    ],
)
def test_a_queue_that_cannot_be_replayed_is_refused(
    client: AmqpClient, queues: QueueClient, arguments: Progress, kind: ErrorKind, reason: str
) -> None:
    client.declare("q", arguments=RETAINED)
    client.declare("s", arguments={"x-queue-type": "stream"})
    client.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    publish(client, b"a", b"b", b"c")
    publish(client, b"there", queue="full")
    with pytest.raises(ControlError) as refused:
        queues.replay(**{"queue": "q", "start": "first", **arguments})
    assert refused.value.kind is kind
    assert reason in refused.value.reason
    assert client.ready_count("full") == 1


def test_an_offset_below_the_log_start_is_refused(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 61, {})
        take(client, server, 30)
        do_rounds(server)
        start = server.server.broker.vhosts["/"].queues["q"].store.log.log_start_offset
        assert start > 0
        reason = f"has the offsets from {start} to 61, 61 not included"
        with pytest.raises(ControlError, match=reason):
            QueueClient(tmp_path).replay("q", start="0")
        done = QueueClient(tmp_path).replay("q", start="1h", is_dry_run=True)
        assert (done["start"], done["log_start_offset"]) == (start, start)


def test_a_queue_that_becomes_full_stops_a_replay_and_the_rest_can_follow(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    client.declare("narrow", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    publish(client, b"a", b"b", b"c", b"d")
    drain(client)
    with pytest.raises(ControlError) as stopped:
        queues.replay("q", start="first", to="narrow")
    assert stopped.value.reason == (
        "stopped at offset 2: queue 'narrow' is full and refuses more; 2 messages below it were "
        "replayed, continue with --from 2"
    )
    assert bodies(drain(client, "narrow")) == [b"a", b"b"]
    assert queues.replay("q", start="2", to="narrow")["replayed"] == 2
    assert bodies(drain(client, "narrow")) == [b"c", b"d"]


def test_a_queue_without_room_makes_no_dead_letters_of_a_replay(
    client: AmqpClient, queues: QueueClient
) -> None:
    client.declare("q", arguments=RETAINED)
    client.declare("dead")
    narrow = {
        "x-max-length": 1,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    client.declare("narrow", arguments=narrow)
    publish(client, b"a", b"b")
    drain(client)
    with pytest.raises(ControlError, match="stopped at offset 1"):
        queues.replay("q", start="first", to="narrow")
    assert client.ready_count("dead") == 0


@pytest.mark.parametrize("name", ["q", "again"])
def test_the_deletion_of_the_queue_stops_a_replay(alarmed: Alarmed, name: str) -> None:
    client = alarmed.client
    client.declare("q", arguments=RETAINED)
    client.declare("again")
    alarmed.publish(b"a")
    drain(client)
    with pytest.raises(ControlError, match=f"stopped at offset 0: queue '{name}' was deleted; 0"):
        alarmed.replay(lambda: client.call(Queue.Delete(queue=name), Queue.DeleteOk), to="again")


def test_a_failing_disk_stops_a_replay_and_only_durable_messages_are_counted(
    tmp_path: Path,
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    disk = FullDisk(root)
    with ThreadedServer(root, disk) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments=RETAINED)
        client.declare("again")
        publish(client, b"a", b"b")
        publish(client, b"first", queue="again")
        drain(client)
        disk.full = "again"
        queues = QueueClient(root)
        with pytest.raises(ControlError) as stopped:
            queues.replay("q", start="first", to="again")
        assert stopped.value.reason.startswith(
            "stopped at offset 0: the log of queue 'again' cannot be written; 0 messages"
        )
        with pytest.raises(ControlError, match="the log of queue 'again' cannot be written"):
            queues.replay("q", start="first", to="again")
        assert bodies(drain(client, "again")) == [b"first"]
        disk.full = None
        queue = server.server.broker.vhosts["/"].queues["again"]
        server.call(queue.store.reopen)
        server.wait_until(lambda: not queue.store.is_failed)
        assert queues.replay("q", start="first", to="again")["replayed"] == 2
        assert bodies(drain(client, "again")) == [b"a", b"b"]


def test_a_clean_stop_ends_a_replay(alarmed: Alarmed) -> None:
    alarmed.client.declare("q", arguments=RETAINED)
    alarmed.publish(b"a")
    drain(alarmed.client)
    with pytest.raises(UnreachableError, match="ended before it answered"):
        alarmed.replay(alarmed.server.stop)
