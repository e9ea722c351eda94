"""A server that may open few files uses all its queues and closes connections beyond the limit."""

import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from pamqp.commands import Queue

from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

CONNECTIONS_MAX = 32
"""What a limit of 128 leaves room for."""


def declare_all(client: AmqpClient, count: int) -> None:
    """Declare durable queues; their definitions share rounds."""
    for number in range(count):
        client.send(Queue.Declare(queue=f"q{number}", durable=True))
    for _ in range(count):
        client.expect(Queue.DeclareOk)


def publish_to_all(client: AmqpClient, count: int) -> None:
    """Return when each queue has confirmed one more message."""
    for number in range(count):
        client.publish(b"m", f"q{number}")
    client.expect_confirmed()


def ready(server: RunningServer, count: int) -> set[int]:
    """Return how many messages the queues hold."""
    with connect(server.address) as client:
        client.open_channel()
        return {client.ready_count(f"q{number}") for number in range(count)}


@pytest.mark.parametrize(
    ("open_files", "queues", "ends"),
    [
        pytest.param(128, 200, RunningServer.kill, id="as few as it works with, killed"),
        pytest.param(400, 400, RunningServer.terminate, id="as many as queues, stopped"),
    ],
)
def test_more_queues_than_files_are_written_and_come_back(
    start_server: StartServer, open_files: int, queues: int, ends: Callable[[RunningServer], object]
) -> None:
    server = start_server("--offset-checkpoint-interval", "100ms", open_files=open_files)
    server.wait_for_message(f"open files limit {open_files} leaves room for")
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        declare_all(client, queues)
        for _ in range(2):
            publish_to_all(client, queues)
    ends(server)
    assert ready(server.restart(), queues) == {2}
    assert not [line for line in server.messages if "failed" in line]


def test_connections_beyond_the_limit_of_open_files_are_closed_and_the_others_work(
    start_server: StartServer,
) -> None:
    server = start_server(open_files=128)
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(connect(server.address)) for _ in range(CONNECTIONS_MAX)]
        # Many at once: each of them is accepted before the first is refused.
        beyond = [
            open_ones.enter_context(socket.create_connection(server.address)) for _ in range(300)
        ]
        for each in beyond:
            each.settimeout(HANG_SECONDS)
            assert closed(each)
        clients[0].open_channel(confirms=True)
        declare_all(clients[0], 100)
        publish_to_all(clients[0], 100)
        clients[1].open_channel()
        assert {clients[1].ready_count(f"q{number}") for number in range(100)} == {1}
    # Gone: there is room for as many again.
    with ExitStack() as open_ones:
        while True:
            try:
                open_ones.enter_context(connect(server.address))
            except (ConnectionError, EOFError, AssertionError):
                continue
            break
    assert ready(server, 100) == {1}


def closed(connection: socket.socket) -> bool:
    """Tell whether the server has closed a connection without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_limit_that_is_too_small_refuses_the_start_in_one_line(start_server: StartServer) -> None:
    with pytest.raises(
        AssertionError, match="the limit of open files is 100, must be at least 128"
    ):
        start_server(open_files=100)
