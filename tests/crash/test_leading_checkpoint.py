"""A checkpoint settles more than a lost log has; new messages are not hidden."""

import shutil

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.data_directories import log_of

pytestmark = pytest.mark.crash


def take_all(client: AmqpClient, queue: str) -> list[bytes]:
    """Get and acknowledge what is ready."""
    bodies = []
    while (message := client.get(queue, no_ack=False)) is not None:
        bodies.append(message.body)
        client.send(Basic.Ack(delivery_tag=message.tag))
    client.ready_count(queue)
    return bodies


def publish(client: AmqpClient, *bodies: bytes) -> None:
    for body in bodies:
        client.publish(body, "q")
        client.expect_confirmed()


def test_acks_of_a_lost_log_hide_no_confirmed_message(
    start_server: StartServer,
) -> None:
    """The floor of the lost log lay above all that was confirmed after it: a crash lost it."""
    server = start_server()
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish(client, *(b"old%d" % number for number in range(6)))
        assert len(take_all(client, "q")) == 6
    assert server.terminate() == 0
    shutil.rmtree(log_of(server.storage_path, "q"))
    server.may_fail = True  # a log that is gone is an error in the server's log
    server.restart()
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        publish(client, b"a", b"b", b"c")
        server.kill()
    server.restart()
    with connect(server.address) as client:
        client.open_channel()
        assert take_all(client, "q") == [b"a", b"b", b"c"]
