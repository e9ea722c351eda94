"""Clients that do not read are cut off while memory is low, and no client that reads."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest
from pamqp.commands import Basic
from pamqp.commands import Connection as Methods

from amqp_server.base.limits import Limits
from amqp_server.connections.open_connections import Connection
from amqp_server.connections.slow_readers import SlowReaders
from amqp_server.control.client import ask
from amqp_server.upkeep.alarms import Reading
from tests.amqp_client import AmqpClient, connect
from tests.system.watched import CAN_BE_BLOCKED, FINE, LOW_MEMORY, MIB, SetSensor
from tests.threaded_server import ThreadedServer

BODY = bytes(range(256)) * 40
MESSAGES = 2_000
CHECKS = 3
ONLY_BY_HAND = Limits(alarm_check_seconds=3600.0, slow_reader_checks_max=CHECKS)
LARGE_BODY = bytes(16 * MIB)
REPLY_TO = "amq.rabbitmq.reply-to"
NAMED = {"connection_name": "slow one"}


class SetReader:
    """A connection whose unread octets a test sets."""

    def __init__(self, unread_bytes: int) -> None:
        self.unread_bytes = unread_bytes
        self.taken_bytes = 0
        self.reason = ""

    def cut_off(self, reason: str) -> None:
        assert not self.reason
        self.reason = reason
        self.unread_bytes = 0


def check(slow_readers: SlowReaders, times: int = 1) -> None:
    for _ in range(times):
        for _ in slow_readers.look():
            pass


def test_only_the_slowest_are_cut_off_until_the_others_are_within_their_share() -> None:
    readers = [SetReader(count) for count in (10, 50, 0, 30, 20)]
    slow_readers = SlowReaders(readers, unread_bytes_max=40, idle_checks_max=CHECKS)

    check(slow_readers, CHECKS)
    assert slow_readers.closed_count == 0
    check(slow_readers)

    assert [each.reason for each in readers if each.reason] == [
        "memory is low, and the client reads nothing of the 50 bytes that wait for it",
        "memory is low, and the client reads nothing of the 30 bytes that wait for it",
    ]
    assert slow_readers.closed_count == 2


def test_a_client_that_takes_one_octet_between_the_checks_is_no_slow_reader() -> None:
    reading, idle = SetReader(1_000), SetReader(60)
    slow_readers = SlowReaders([reading, idle], unread_bytes_max=50, idle_checks_max=CHECKS)
    for _ in range(10 * CHECKS):
        reading.taken_bytes += 1
        check(slow_readers)

    assert not reading.reason
    assert idle.reason
    check(slow_readers, CHECKS - 1)
    reading.taken_bytes += 1
    check(slow_readers, CHECKS)
    assert not reading.reason


def test_a_client_that_reads_between_two_steps_of_a_check_is_not_cut_off() -> None:
    first, second = SetReader(100), SetReader(90)
    slow_readers = SlowReaders([first, second], unread_bytes_max=0, idle_checks_max=CHECKS)
    check(slow_readers, CHECKS)
    steps = slow_readers.look()
    next(steps)
    # A check that begins beside another must neither count nor forget.
    check(slow_readers)
    first.taken_bytes += 1
    for _ in steps:
        pass

    assert not first.reason
    assert second.reason


def test_the_end_of_the_alarm_ends_the_counting() -> None:
    reader = SetReader(100)
    slow_readers = SlowReaders([reader], unread_bytes_max=50, idle_checks_max=CHECKS)
    check(slow_readers, CHECKS)
    slow_readers.forget()
    check(slow_readers, CHECKS)
    assert not reader.reason
    check(slow_readers)
    assert reader.reason


def see(server: ThreadedServer, reading: Reading, times: int = 1) -> None:
    """Evaluate a measurement, as the alarms do at each of their checks."""
    for _ in range(times):
        server.call(lambda: server.server.alarms.take(reading))
        server.wait_until(lambda: not server.server.slow_readers._is_looking)


def fill(server: ThreadedServer, deaf: AmqpClient, publisher: AmqpClient) -> None:
    """Send a consumer more than its socket and the server's buffer hold."""
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.open_channel()
    deaf.declare("heap")
    deaf.send(Basic.Consume(queue="heap"))
    publisher.open_channel(confirms=True)
    octets = publisher.publish_octets(
        Basic.Publish(0, "", "heap"), BODY, Basic.Properties(delivery_mode=2)
    )
    publisher.send_raw(octets * MESSAGES)
    while publisher.expect(Basic.Ack).delivery_tag != MESSAGES:
        pass
    server.wait_until(lambda: not all(each.is_writable for each in server.connections))


def test_a_slow_reader_is_cut_off_and_its_messages_go_to_a_client_that_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sensor = SetSensor()
    with (
        caplog.at_level(logging.WARNING),
        ThreadedServer(
            tmp_path, limits=ONLY_BY_HAND, sensor=sensor, memory_watermark=MIB
        ) as server,
        connect(server.address, properties=NAMED) as deaf,
        connect(server.address) as publisher,
        connect(server.address) as reader,
    ):
        deaf_port = deaf.socket.getsockname()[1]
        fill(server, deaf, publisher)
        reader.open_channel()
        see(server, LOW_MEMORY, CHECKS)
        assert len(server.connections) == 3
        see(server, LOW_MEMORY)
        server.wait_until(lambda: len(server.connections) == 2)
        # Not earlier: what it has not read yet would make it a slow reader too.
        reader.call(Basic.Consume(queue="heap"), Basic.ConsumeOk)

        # Also what the slow reader had, in its order.
        tags = [reader.expect_delivery().tag for _ in range(MESSAGES)]
        reader.send(Basic.Ack(tags[-1], multiple=True))
        assert reader.ready_count("heap") == 0
        assert ask(tmp_path, "status")["slow_readers_closed"] == 1
        see(server, FINE)
        publisher.publish(b"after", "heap")
        publisher.expect(Basic.Ack)
        assert reader.expect_delivery().body == b"after"

    (lost,) = [
        each for each in caplog.messages if f"connection lost peer=127.0.0.1:{deaf_port}" in each
    ]
    assert lost.endswith("reason=closed by the server")
    (line,) = [each for each in caplog.messages if "slow reader cut off" in each]
    assert f"peer=127.0.0.1:{deaf_port} ->" in line
    assert "user=guest client=slow one unread_bytes=" in line
    assert "reason=memory is low, and the client reads nothing of the" in line


def test_a_client_that_reads_little_by_little_is_not_cut_off(tmp_path: Path) -> None:
    with (
        ThreadedServer(
            tmp_path, limits=ONLY_BY_HAND, sensor=SetSensor(), memory_watermark=MIB
        ) as server,
        connect(server.address) as slow,
        connect(server.address) as publisher,
    ):
        slow.open_channel()
        slow.declare("q")
        slow.call(Basic.Consume(queue="q"), Basic.ConsumeOk)
        publisher.open_channel(confirms=True)
        publisher.publish(2 * LARGE_BODY, "q")
        publisher.expect_confirmed()
        server.wait_until(lambda: not all(each.is_writable for each in server.connections))
        (connection,) = [each for each in server.connections if not each.is_writable]
        for _ in range(CHECKS + 1):
            see(server, LOW_MEMORY, CHECKS - 1)
            taken = connection.taken_bytes
            # Much less than the kernel's buffers hold.
            missing = MIB // 2
            while missing:
                missing -= len(slow.socket.recv(missing))
            server.wait_until(lambda taken=taken: connection.taken_bytes != taken)  # type: ignore[misc]
            see(server, LOW_MEMORY)

        assert connection in server.connections
        assert connection.unread_bytes > MIB // 4


def test_without_the_alarm_a_client_may_leave_unread_what_it_likes(tmp_path: Path) -> None:
    with (
        ThreadedServer(
            tmp_path, limits=ONLY_BY_HAND, sensor=SetSensor(), memory_watermark=MIB
        ) as server,
        connect(server.address) as slow,
        connect(server.address) as publisher,
    ):
        fill(server, slow, publisher)
        for _ in range(CHECKS):
            see(server, LOW_MEMORY, CHECKS)
            see(server, FINE, CHECKS)
        assert len(server.connections) == 2


class UnreadSensor:
    """Measures nothing but the unread octets of some connections."""

    def __init__(self) -> None:
        self.connections: Iterable[Connection] = ()

    def read(self) -> Reading:
        """Return them as the memory."""
        return FINE._replace(memory_bytes=sum(each.unread_bytes for each in self.connections))


def test_the_alarm_that_unread_octets_raise_ends_without_their_client(tmp_path: Path) -> None:
    sensor = UnreadSensor()
    limits = Limits(alarm_check_seconds=0.02)
    with (
        ThreadedServer(tmp_path, limits=limits, sensor=sensor, memory_watermark=2 * MIB) as server,
        connect(server.address) as deaf,
        connect(server.address, capabilities=CAN_BE_BLOCKED) as publisher,
    ):
        sensor.connections = server.server.connections
        deaf.open_channel()
        deaf.declare("q")
        deaf.call(Basic.Consume(queue="q"), Basic.ConsumeOk)
        publisher.open_channel(confirms=True)
        publisher.publish(LARGE_BODY, "q")
        publisher.expect_confirmed()
        server.wait_until(lambda: bool(server.server.alarms.low))
        publisher.publish(b"parked", "q")
        publisher.expect(Methods.Blocked, 0)

        publisher.expect(Methods.Unblocked, 0)
        publisher.expect_confirmed()
        assert publisher.ready_count("q") == 2
        message = publisher.get("q")
        assert message is not None
        assert message.body == LARGE_BODY
        assert message.redelivered


def test_replies_that_wait_for_a_requester_are_unread_too(tmp_path: Path) -> None:
    with (
        ThreadedServer(
            tmp_path, limits=ONLY_BY_HAND, sensor=SetSensor(), memory_watermark=MIB
        ) as server,
        connect(server.address) as deaf,
        connect(server.address) as publisher,
    ):
        deaf.open_channel(2)
        deaf.call(Basic.Consume(queue=REPLY_TO, no_ack=True), Basic.ConsumeOk, 2)
        deaf.declare("requests", channel=2)
        deaf.publish(b"?", "requests", properties=Basic.Properties(reply_to=REPLY_TO), channel=2)
        fill(server, deaf, publisher)
        (connection,) = [each for each in server.connections if not each.is_writable]
        before = server.call(lambda: connection.unread_bytes)
        request = publisher.get("requests")
        assert request is not None
        for _ in range(3):
            publisher.publish(bytes(MIB), str(request.properties.reply_to))
            publisher.expect(Basic.Ack)

        assert server.call(lambda: connection.unread_bytes) - before > 3 * MIB
