"""Alarms block those who publish, nobody else, and lose nothing.

The sensor is the test's own; the thresholds, the task that looks and all behind it are real.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Confirm, Connection, Queue, Tx

from amqp_server.alarms import Reading
from amqp_server.config import Limits
from amqp_server.control.client import ask
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.conftest import StartServer
from tests.threaded_server import ThreadedServer

GIB = 1024**3
FINE = Reading(memory_bytes=0, disk_free_bytes=100 * GIB)
LOW_MEMORY = FINE._replace(memory_bytes=100 * GIB)
LOW_DISK = FINE._replace(disk_free_bytes=0)
LOW_BOTH = Reading(memory_bytes=100 * GIB, disk_free_bytes=0)
CAN_BE_BLOCKED = {"connection.blocked": True, "authentication_failure_close": True}
LIMITS = Limits(alarm_check_seconds=0.01, parked_bytes_per_connection_max=64 * 1024)
MIB = 1024 * 1024


class SetSensor:
    """Sees what it is set to."""

    def __init__(self) -> None:
        self.reading = FINE

    def read(self) -> Reading:
        """Return what was set."""
        return self.reading


class Watched:
    """A server with the sensor that it looks with."""

    def __init__(self, server: ThreadedServer, sensor: SetSensor) -> None:
        self.server = server
        self.address = server.address
        self._sensor = sensor

    def see(self, reading: Reading) -> None:
        """Set what is seen, and return when the alarms are as that asks."""
        self._sensor.reading = reading
        self.server.wait_until(lambda: self.server.server.alarms.last == reading)

    def connect(self) -> AmqpClient:
        """Open a connection that can be told that it is blocked."""
        return connect(self.address, capabilities=CAN_BE_BLOCKED)

    def wait_for_pause(self) -> None:
        """Return when some connection is not read for want of room."""
        self.server.wait_until(
            lambda: any("parked" in each._pauses for each in self.server.server.connections)
        )


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """Start a server whose memory and disk are what the test says."""
    sensor = SetSensor()
    with ThreadedServer(tmp_path / "data", limits=LIMITS, sensor=sensor) as server:
        yield Watched(server, sensor)


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (LOW_MEMORY, "low on memory"),
        (LOW_DISK, "low on disk"),
        (LOW_BOTH, "low on memory & disk"),
    ],
)
def test_a_publisher_is_told_that_it_is_blocked_and_why(
    watched: Watched, reading: Reading, reason: str
) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(reading)
        client.publish(b"parked", "q")

        assert client.expect(Connection.Blocked, 0).reason == reason
        assert ready_count(watched, "q") == 0

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()
        assert client.ready_count("q") == 1


def ready_count(watched: Watched, queue: str) -> int:
    """Ask on another connection, which does not publish."""
    with watched.connect() as witness:
        witness.open_channel()
        return witness.ready_count(queue)


def test_who_does_not_publish_hears_nothing_and_works_on(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"before", "q")
        client.expect_confirmed()
        watched.see(LOW_BOTH)

        client.declare("another")
        client.consume("q")
        client.send(Basic.Ack(client.expect_delivery().tag))
        client.call(Basic.Cancel("nobody"), Basic.CancelOk)
        client.close()


def test_without_the_capability_a_publisher_is_blocked_without_a_word(watched: Watched) -> None:
    with connect(watched.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        # No connection.blocked comes before the answer, and no unblocked after it.
        client.open_channel(2)
        assert client.ready_count("q", 2) == 0

        watched.see(FINE)
        client.expect_confirmed()


def test_a_blocked_connection_goes_on_consuming_on_the_same_channel(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(3):
            client.publish(b"%d" % number, "q")
        client.expect_confirmed()
        watched.see(LOW_DISK)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)

        client.consume("q", prefetch=1)
        for number in range(3):
            delivery = client.expect_delivery()
            assert delivery.body == b"%d" % number
            client.send(Basic.Ack(delivery.tag))
        assert client.get("q") is None

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)


def test_what_follows_a_parked_publish_on_its_channel_waits_behind_it(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q", durable=False)
        watched.see(LOW_MEMORY)
        client.publish(b"unconfirmed", "q")
        client.send(Confirm.Select())
        client.published[1] = 0
        client.publish(b"confirmed", "q")
        client.send(Queue.Purge(queue="q"))
        client.publish(b"last", "q")
        client.expect(Connection.Blocked, 0)
        # Another channel is not held up by it.
        client.open_channel(2)
        assert client.ready_count("q", 2) == 0

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Confirm.SelectOk)
        assert client.expect(Queue.PurgeOk).message_count == 2
        client.expect_confirmed()
        message = client.get("q")
        assert message is not None
        assert message.body == b"last"


def test_on_a_transactional_channel_everything_keeps_its_place(watched: Watched) -> None:
    """An acknowledgement belongs to the commit that follows it, not to the one before."""
    with watched.connect() as client:
        client.open_channel()
        client.declare("q", durable=False)
        client.call(Tx.Select(), Tx.SelectOk)
        client.publish(b"first", "q")
        client.call(Tx.Commit(), Tx.CommitOk)
        client.consume("q")
        tag = client.expect_delivery().tag
        watched.see(LOW_MEMORY)
        client.publish(b"second", "q")
        client.send(Tx.Commit())
        client.send(Basic.Ack(tag))
        client.send(Tx.Rollback())
        client.expect(Connection.Blocked, 0)

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Tx.CommitOk)
        client.expect(Tx.RollbackOk)
        assert client.expect_delivery().body == b"second"
        client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
        client.open_channel()
        assert client.ready_count("q") == 2  # the acknowledgement was rolled back


def test_parked_messages_come_in_their_order_whatever_their_size(watched: Watched) -> None:
    bodies = [b"small", bytes(300_000), b"", b"small too", bytes(140_000)]
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        for body in bodies:
            client.publish(body, "q")
        client.expect(Connection.Blocked, 0)

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()
        assert [message.body for message in take_all(client)] == bodies


def take_all(client: AmqpClient) -> list:  # type: ignore[type-arg]
    """Take every message of the queue `q`."""
    return list(iter(lambda: client.get("q"), None))


def test_a_message_begun_before_the_alarm_is_finished_in_it(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        octets = client.publish_octets(Basic.Publish(0, "", "q"), bytes(300_000), PERSISTENT)
        client.send_raw(octets[:200_000])
        budget = watched.server.server.broker.assembly_budget
        watched.server.wait_until(lambda: budget.held_bytes > 0)
        watched.see(LOW_DISK)
        client.send_raw(octets[200_000:])
        client.expect(Basic.Ack)
        # An acknowledgement is not taken for a torn message.
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        assert client.get("q") is not None


def test_past_its_room_a_blocked_connection_is_not_read(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        for _ in range(100):
            client.publish(bytes(1000), "q")
        client.expect(Connection.Blocked, 0)
        watched.wait_for_pause()
        parked = watched.server.call(
            lambda: max(each._session.parked.held_bytes for each in sessions(watched))
        )
        assert LIMITS.parked_bytes_per_connection_max < parked < MIB
        client.send(Queue.Declare(queue="unread"))

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Queue.DeclareOk)
        client.expect_confirmed()
        assert client.ready_count("q") == 100


def sessions(watched: Watched) -> list:  # type: ignore[type-arg]
    """Return the connections that have a session."""
    return [each for each in watched.server.server.connections if each._session is not None]


def test_with_a_full_disk_confirming_publishers_get_nacks(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_DISK)
        for _ in range(100):
            client.publish(bytes(1000), "q")
        client.expect(Connection.Blocked, 0)
        tag = 0
        while tag != 100:
            nack = client.expect(Basic.Nack)
            tag = nack.delivery_tag or 0
        client.publish(b"refused at once", "q")
        assert client.expect(Basic.Nack).delivery_tag == 101

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.publish(b"taken", "q")
        assert client.expect(Basic.Ack).delivery_tag == 102
        assert client.ready_count("q") == 1


def test_with_a_full_disk_a_publisher_without_confirms_just_waits(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_DISK)
        for _ in range(100):
            client.publish(bytes(1000), "q")
        client.expect(Connection.Blocked, 0)
        watched.wait_for_pause()

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        assert client.ready_count("q") == 100


def test_memory_that_is_low_as_well_does_not_lift_the_refusal(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        for _ in range(100):
            client.publish(bytes(1000), "q")
        client.expect(Connection.Blocked, 0)
        watched.wait_for_pause()
        watched.see(LOW_BOTH)  # now there is no disk to spill to either
        assert client.expect(Basic.Nack).delivery_tag
        watched.see(LOW_MEMORY)
        watched.see(FINE)


@pytest.mark.parametrize("of_what", ["channel", "connection"])
def test_a_close_waits_a_while_and_loses_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, of_what: str
) -> None:
    monkeypatch.setattr("amqp_server.parked_publishes.CLOSE_WAIT_SECONDS", 0.05)
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        if of_what == "channel":
            client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
            client.open_channel()
            client.publish(b"parked again", "q")
            assert ready_count(watched, "q") == 1
        else:
            client.close()
            assert ready_count(watched, "q") == 1


def test_a_close_behind_a_parked_publish_is_answered_when_the_alarm_ends(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqp_server.parked_publishes.CLOSE_WAIT_SECONDS", 60)
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        client.send(Connection.Close(200, "done", 0, 0), 0)
        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Connection.CloseOk, 0)
        assert ready_count(watched, "q") == 1


def test_what_is_parked_survives_a_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqp_server.client_connection.CLOSE_SECONDS_MAX", 0.1)
    sensor = SetSensor()
    with ThreadedServer(tmp_path / "data", limits=LIMITS, sensor=sensor) as server:
        watched = Watched(server, sensor)
        client = watched.connect()
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        server.stop()
        client.socket.close()
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as client:
        client.open_channel()
        assert client.ready_count("q") == 1


def test_a_client_that_goes_takes_its_parked_messages_with_it(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
    watched.server.wait_until(lambda: not watched.server.server.connections)
    watched.see(FINE)
    assert ready_count(watched, "q") == 0


def test_a_channel_error_drops_what_that_channel_has_parked(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        client.send(Basic.Ack(77))
        client.expect_channel_close(406)
        client.open_channel()
        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        assert client.ready_count("q") == 0


def test_a_connection_made_during_an_alarm_is_blocked_too(watched: Watched) -> None:
    watched.see(LOW_DISK)
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"parked", "q")
        assert client.expect(Connection.Blocked, 0).reason == "low on disk"
        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()


def test_a_second_alarm_blocks_again(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for reading in (LOW_DISK, LOW_MEMORY):
            watched.see(reading)
            client.publish(b"parked", "q")
            client.expect(Connection.Blocked, 0)
            watched.see(FINE)
            client.expect(Connection.Unblocked, 0)
            client.expect_confirmed()
        assert client.ready_count("q") == 2


def test_a_blocked_client_is_not_let_go_for_its_silence(watched: Watched) -> None:
    with (
        connect(watched.address, capabilities=CAN_BE_BLOCKED, heartbeat_seconds=1) as client,
        connect(watched.address, heartbeat_seconds=1) as silent,
    ):
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_DISK)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        silent.expect_end()  # as long as this takes, the blocked one was silent as well
        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()


def test_memory_is_given_up_while_it_is_low(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for _ in range(20):
            client.publish(bytes(10_000), "q")
        client.expect_confirmed()
        watched.see(LOW_MEMORY)
        watched.server.wait_until(
            lambda: all(
                not queue.store.ring.held_bytes for queue in watched.server.server.broker.queues()
            )
        )
        assert len(take_all(client)) == 20


def test_a_sensor_that_fails_changes_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.see(LOW_DISK)

    def fail() -> Reading:
        raise OSError("no such device")

    monkeypatch.setattr(watched._sensor, "read", fail)
    watched.server.run(watched.server.server.alarms.look)
    assert watched.server.call(lambda: watched.server.server.alarms.reason) == "low on disk"


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--memory-watermark", "1MiB", "low on memory"),
        ("--disk-free-limit", "1000TiB", "low on disk"),
    ],
)
def test_the_real_sensor_sees_memory_and_disk(
    start_server: StartServer, option: str, value: str, reason: str
) -> None:
    server = start_server(option, value)
    with connect(server.address, capabilities=CAN_BE_BLOCKED) as client:
        client.open_channel()
        client.declare("q")
        client.publish(b"parked", "q")
        assert client.expect(Connection.Blocked, 0).reason == reason
        client.open_channel(2)
        assert client.ready_count("q", 2) == 0
        server.wait_for_message(f"alarms reason={reason} memory_bytes=")
        assert ask(server.storage_path, "status")["alarms"] == [reason.removeprefix("low on ")]
