"""Memory and disk alarms block publishers and no other client.

The sensor is mostly the test's own; the thresholds, the task that looks and all behind it are real.
"""

from __future__ import annotations

from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import pytest
from pamqp import frame
from pamqp.base import Frame
from pamqp.commands import Basic, Connection, Queue

from amqp_server.control.client import ask
from amqp_server.testing.clock import TurnedClock
from amqp_server.upkeep.alarms import Alarms, Reading
from tests.amqp_client import AmqpClient, connect, describe
from tests.conformance.polling import eventually
from tests.conftest import StartServer
from tests.servers import RunningServer
from tests.system.watched import (
    CAN_BE_BLOCKED,
    FINE,
    LIMITS,
    LOW_BOTH,
    LOW_DISK,
    LOW_MEMORY,
    MIB,
    SetSensor,
    Watched,
    take_all,
)
from tests.threaded_server import ThreadedServer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (LOW_MEMORY, "low on memory"),
        (LOW_DISK, "low on disk"),
        (LOW_BOTH, "low on memory & disk"),
    ],
)
def test_a_publisher_gets_connection_blocked_with_the_reason(
    watched: Watched, reading: Reading, reason: str
) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(reading)
        client.publish(b"parked", "q")

        assert client.expect(Connection.Blocked, 0).reason == reason
        assert watched.ready_count("q") == 0

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()
        assert client.ready_count("q") == 1


def test_free_memory_of_the_allocator_blocks_no_publisher(watched: Watched) -> None:
    watermark = watched.server.server.alarms.memory_bytes_max
    half, above = watermark // 2, LOW_MEMORY._replace(memory_bytes=watermark + MIB)
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(above._replace(used_bytes=half))
        client.publish(b"taken", "q")
        client.expect_confirmed()

        watched.see(above._replace(used_bytes=half + 1))
        client.publish(b"parked", "q")
        assert client.expect(Connection.Blocked, 0).reason == "low on memory"
        watched.see(above._replace(used_bytes=half))
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()

        watched.see(above._replace(memory_bytes=2 * watermark, used_bytes=0))
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)


def status_after(server: RunningServer, before: dict[str, Any]) -> dict[str, Any] | None:
    """Return the server's status if it has measured its memory since, or has raised an alarm."""
    status: dict[str, Any] = ask(server.storage_path, "status")
    has_looked = status["memory_bytes"] != before.get("memory_bytes")
    return status if has_looked or status["alarms"] else None


def test_the_memory_alarm_ends_when_the_memory_is_released(start_server: StartServer) -> None:
    """What the allocator keeps is above the watermark, and is free all the same.

    One binding of fifty stays, in the memory between those that go. The server takes less than half
    of the watermark without them.
    """
    watermark_bytes = 80 * MIB
    server = start_server("--memory-watermark", str(watermark_bytes))
    keys = map("{:0>200}".format, count())
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("p", durable=False)
        client.declare("kept", durable=False)
        seen = ask(server.storage_path, "status")
        while not seen["alarms"]:
            client.send_raw(
                b"".join(
                    frame.marshal(
                        Queue.Bind(0, "p" if at % 50 else "kept", "amq.topic", key, nowait=True), 1
                    )
                    for at, key in enumerate(islice(keys, 1_000))
                )
            )
            # Each answer shows what the server has handled by then.
            assert client.ready_count("p") == 0
            # From one and a half watermarks on, memory that is free counts as taken: above the
            # watermark, nothing more comes before the server has looked again.
            is_above = server.resident_bytes > watermark_bytes
            seen = eventually(partial(status_after, server, seen if is_above else {}))
        assert seen["alarms"] == ["memory"]
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.call(Queue.Delete(queue="p"), Queue.DeleteOk)
        client.declare("q")
        client.publish(b"after", "q")
        client.expect_confirmed()


def test_a_client_that_does_not_publish_is_not_blocked(watched: Watched) -> None:
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


def test_a_publisher_without_the_capability_is_blocked_without_notice(watched: Watched) -> None:
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


def test_a_blocked_client_is_not_disconnected_for_missing_heartbeats(tmp_path: Path) -> None:
    sensor, clock = SetSensor(), TurnedClock()
    with (
        ThreadedServer(tmp_path, limits=LIMITS, sensor=sensor, clock=clock) as server,
        connect(server.address, capabilities=CAN_BE_BLOCKED, heartbeat_seconds=1) as client,
        connect(server.address, heartbeat_seconds=1) as silent,
    ):
        watched = Watched(server, sensor)
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_DISK)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        # For the silent one this is too long, and the blocked one is silent as well.
        clock.advance(seconds=3, heartbeats=True)
        silent.expect_end()
        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()


def test_the_broker_releases_memory_while_memory_is_low(watched: Watched) -> None:
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
        server.wait_for_message(f"alarms reason={reason!r} memory_bytes=")
        assert ask(server.storage_path, "status")["alarms"] == [reason.removeprefix("low on ")]


def test_a_watermark_of_zero_stops_publishers_until_another_is_set(
    start_server: StartServer,
) -> None:
    server = start_server("--memory-watermark", "0")
    with connect(server.address, capabilities=CAN_BE_BLOCKED) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"first", "q")
        assert client.expect(Connection.Blocked, 0).reason == "low on memory"
        ask(server.storage_path, "settings.set_memory_limit", watermark="0.6")
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()

        ask(server.storage_path, "settings.set_memory_limit", watermark="0")
        client.publish(b"second", "q")
        client.expect(Connection.Blocked, 0)
        with connect(server.address) as consumer:
            consumer.open_channel()
            consumer.consume("q", no_ack=True)
            assert consumer.expect_delivery().body == b"first"


def test_a_watermark_of_zero_needs_no_measurement_and_releases_nothing() -> None:
    asked: list[str] = []
    alarms = Alarms(
        SetSensor(),
        memory_bytes_max=0,
        disk_free_bytes_min=0,
        changed=lambda: asked.append("changed"),
        relieve_memory=lambda: asked.append("relieve"),
        use_disk=lambda: None,
    )
    alarms.take(FINE)
    alarms.take(FINE)
    assert alarms.low == ["memory"]
    assert asked == ["changed"]


def test_messages_in_memory_raise_the_alarm_and_releasing_them_ends_it(
    start_server: StartServer,
) -> None:
    """All of it real: the rings fill, the alarm empties them into the log, and it ends."""
    idle = start_server()
    with connect(idle.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"warm", "q")
        client.expect_confirmed()
        limit_bytes = idle.resident_bytes + 6 * MIB
    server = start_server("--memory-watermark", str(limit_bytes))
    with connect(server.address, capabilities=CAN_BE_BLOCKED) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for _ in range(150):
            client.publish(bytes(100_000), "q")
        answered = receive_until(client, Connection.Blocked, keeps_publishing=True)
        answered = max(answered, receive_until(client, Connection.Unblocked))
        while answered != client.published[1]:
            answered = client.expect(Basic.Ack).delivery_tag or 0
        assert client.ready_count("q") == client.published[1]


def test_what_a_consumer_has_not_read_keeps_the_alarm_on_until_it_reads(
    start_server: StartServer,
) -> None:
    """The log has the message, and no ring: its unread delivery alone is in memory."""
    body = bytes(32 * MIB)
    server = start_server("--memory-watermark", "48MiB", "--ring-bytes", "64KiB")
    with (
        connect(server.address) as deaf,
        connect(server.address, capabilities=CAN_BE_BLOCKED) as publisher,
    ):
        deaf.open_channel()
        deaf.declare("q")
        deaf.call(Basic.Consume(queue="q"), Basic.ConsumeOk)
        publisher.open_channel(confirms=True)
        publisher.publish(body, "q")
        publisher.expect_confirmed()

        # An alarm that the arriving message raised would end here.
        publisher.publish(b"small", "q")
        receive_until(publisher, Connection.Blocked, keeps_publishing=True)

        assert deaf.expect_delivery().body == body
        assert deaf.expect_delivery().body == b"small"
        receive_until(publisher, Connection.Unblocked)


def receive_until(client: AmqpClient, kind: type[Frame], *, keeps_publishing: bool = False) -> int:
    """Receive confirms until a method of this kind comes; return the highest tag confirmed.

    With `keeps_publishing` a message more is sent whenever all are confirmed.
    """
    answered = 0
    while True:
        _, value = client.receive()
        if isinstance(value, kind):
            return answered
        assert isinstance(value, Basic.Ack), describe(value)
        answered = value.delivery_tag or 0
        if keeps_publishing and answered == client.published[1]:
            client.publish(b"one more", "q")
