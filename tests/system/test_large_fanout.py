"""A large message for many consumers that do not read is in memory once, in whatever queues."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.protocol.large_delivery import LargeFrames
from tests.amqp_client import PERSISTENT, connect
from tests.conftest import StartServer
from tests.threaded_server import ThreadedServer

CONSUMERS = 5
BODY = bytes(range(256)) * 4096
QUEUES = 20
LARGER_BODY = BODY * 8
SMALL_BODY = b"behind it"
UNREAD = 10


def test_consumers_that_do_not_read_share_one_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[bytes | memoryview]] = []
    take = LargeFrames.take

    def noted(self: LargeFrames, bytes_max: int) -> list[bytes | memoryview]:
        pieces = take(self, bytes_max)
        sent.append(pieces)
        return pieces

    monkeypatch.setattr(LargeFrames, "take", noted)
    with ThreadedServer(tmp_path) as server, ExitStack() as clients:
        publisher = clients.enter_context(connect(server.address))
        publisher.open_channel(confirms=True)
        consumers = [clients.enter_context(connect(server.address)) for _ in range(CONSUMERS)]
        for number, consumer in enumerate(consumers):
            consumer.open_channel()
            consumer.declare(f"q{number}")
            bind = Queue.Bind(queue=f"q{number}", exchange="amq.fanout")
            consumer.call(bind, Queue.BindOk)
            consumer.call(Basic.Consume(queue=f"q{number}"), Basic.ConsumeOk)
        publisher.publish(BODY, "", "amq.fanout")
        publisher.expect_confirmed()
        server.wait_until(lambda: len(sent) >= CONSUMERS)

        bodies = {
            id(each.obj) for pieces in sent for each in pieces if isinstance(each, memoryview)
        }
        assert len(bodies) == 1
        for consumer in consumers:
            assert consumer.expect_delivery().body == BODY


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_twenty_queues_that_write_one_message_do_not_copy_it(
    start_server: StartServer, durable: bool
) -> None:
    """Every queue has to write it, because it is larger than the ring."""
    server = start_server("--ring-bytes", "64KiB", "--ring-bytes-total", "1MiB")
    with ExitStack() as clients:
        publisher = clients.enter_context(connect(server.address))
        publisher.open_channel(confirms=True)
        consumers = [clients.enter_context(connect(server.address)) for _ in range(QUEUES)]
        for number, consumer in enumerate(consumers):
            consumer.open_channel()
            consumer.declare(f"q{number}", durable=durable)
            bind = Queue.Bind(queue=f"q{number}", exchange="amq.fanout")
            consumer.call(bind, Queue.BindOk)
            consumer.call(Basic.Consume(queue=f"q{number}"), Basic.ConsumeOk)
        before = server.peak_bytes

        publisher.publish(LARGER_BODY, "", "amq.fanout", properties=PERSISTENT)
        publisher.publish(SMALL_BODY, "", "amq.fanout", properties=PERSISTENT)
        publisher.expect_confirmed()
        for consumer in consumers:
            # The first octet of a delivery has arrived, so its queue has been served.
            assert consumer.socket.recv(1, socket.MSG_PEEK)

        assert server.peak_bytes - before < 3 * len(LARGER_BODY)
        for consumer in consumers:
            assert consumer.expect_delivery().body == LARGER_BODY
            assert consumer.expect_delivery().body == SMALL_BODY


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_a_consumer_that_does_not_read_has_one_large_message_in_memory(
    start_server: StartServer, durable: bool
) -> None:
    server = start_server("--ring-bytes", "64KiB", "--ring-bytes-total", "1MiB")
    with connect(server.address) as publisher, connect(server.address) as consumer:
        publisher.open_channel(confirms=True)
        consumer.open_channel()
        consumer.declare("unread", durable=durable)
        consumer.call(Basic.Consume(queue="unread"), Basic.ConsumeOk)
        before, peak_before = server.resident_bytes, server.peak_bytes

        for number in range(UNREAD):
            publisher.publish(LARGER_BODY + b"%d" % number, "unread", properties=PERSISTENT)
            publisher.expect_confirmed()

        # One is unread; the allocator keeps the space of one or two that are in the log by now.
        server.wait_for_memory(before + 5 * len(LARGER_BODY))
        # How many were on their way to the log at a time depends on the disk.
        assert server.peak_bytes - peak_before < UNREAD * len(LARGER_BODY)
        for number in range(UNREAD):
            assert consumer.expect_delivery().body == LARGER_BODY + b"%d" % number
