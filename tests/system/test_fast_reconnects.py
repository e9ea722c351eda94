"""A client that reconnects at once finds its names free and its queues empty."""

import random
import socket
import struct
import threading
from collections.abc import Callable

import pytest
from pamqp import frame
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

CLIENTS = 3
ROUNDS = 25
ABORT_AT_CLOSE = struct.pack("ii", 1, 0)


def close_connection(client: AmqpClient) -> None:
    client.send(Connection.Close(200, "bye", 0, 0), 0)
    read_until(client, Connection.CloseOk)


def close_channel(client: AmqpClient) -> None:
    client.send(Channel.Close(200, "bye", 0, 0))
    read_until(client, Channel.CloseOk)


def reset(client: AmqpClient) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT_AT_CLOSE)


def go(client: AmqpClient) -> None:
    """Leave without a word."""


def read_until(client: AmqpClient, kind: type[Frame]) -> None:
    """Read past deliveries and whatever else was on its way."""
    while not isinstance(client.receive()[1], kind):
        pass


LEAVE: tuple[Callable[[AmqpClient], None], ...] = (close_connection, close_channel, reset, go)


def at_once(work: Callable[[int], None]) -> None:
    """Let several clients work at a time; what one of them raises fails the test."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("durable", [False, True], ids=["transient", "durable"])
@pytest.mark.parametrize("exclusive", [False, True], ids=["auto-delete", "exclusive"])
def test_a_reconnecting_client_finds_its_name_free_and_its_queue_empty(
    server: RunningServer, *, durable: bool, exclusive: bool
) -> None:
    def come_and_go(number: int) -> None:
        chance = random.Random(number)
        for _ in range(ROUNDS):
            with connect(server.address) as client:
                client.open_channel(confirms=True)
                declare = Queue.Declare(
                    queue=f"q{number}",
                    durable=durable,
                    exclusive=exclusive,
                    auto_delete=not exclusive,
                )
                declared = client.call(declare, Queue.DeclareOk)
                assert (declared.message_count, declared.consumer_count) == (0, 0)
                for _ in range(3):
                    client.publish(b"x", f"q{number}")
                client.expect_confirmed()
                client.consume(f"q{number}", prefetch=2)
                chance.choice(LEAVE)(client)

    at_once(come_and_go)
    server.kill()
    server.restart()
    with connect(server.address) as client:
        client.open_channel()
        for number in range(CLIENTS):
            # Only what the last client left without a word may have been there at the kill.
            client.call(Queue.Delete(queue=f"q{number}"), Queue.DeleteOk)


def test_an_auto_delete_queue_can_be_declared_again_right_behind_its_last_cancel(
    server: RunningServer,
) -> None:
    declare = Queue.Declare(queue="q", durable=True, auto_delete=True)
    first = [declare, Basic.Consume(queue="q", consumer_tag="c")]
    second = [Basic.Cancel(consumer_tag="c"), declare]
    with connect(server.address) as client:
        client.open_channel()
        for _ in range(ROUNDS):
            client.send_raw(b"".join(frame.marshal(method, 1) for method in first))
            client.publish(b"old", "q")
            client.send_raw(b"".join(frame.marshal(method, 1) for method in second))
            read_until(client, Basic.CancelOk)
            assert client.expect(Queue.DeclareOk).message_count == 0
            client.call(Queue.Delete(queue="q"), Queue.DeleteOk)


def test_an_auto_delete_queue_that_clients_declare_and_leave_is_whole_or_deleted(
    server: RunningServer,
) -> None:
    """Each message is delivered, or was returned, or its queue was gone: nothing hangs."""

    def share(number: int) -> None:
        chance = random.Random(number)
        declare = Queue.Declare(queue="shared", durable=True, auto_delete=True)
        for _ in range(ROUNDS):
            with connect(server.address) as client:
                client.open_channel(confirms=True)
                client.call(declare, Queue.DeclareOk)
                client.send(Basic.Consume(queue="shared"))
                _, answer = client.receive()
                if isinstance(answer, Channel.Close):
                    # The last other consumer left between the two, and the queue with it.
                    assert answer.reply_code == 404
                    continue
                assert isinstance(answer, Basic.ConsumeOk)
                client.publish(b"x", "shared", mandatory=True)
                read_until(client, Basic.Ack)
                chance.choice(LEAVE)(client)

    at_once(share)
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Delete(queue="shared"), Queue.DeleteOk)
    server.kill()
    server.restart()
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="shared", passive=True))
        assert client.expect(Channel.Close).reply_code == 404
