"""Names that file systems do not allow stay distinct and inside the directory after restarts."""

import os
from pathlib import Path

import pytest

from amqp_server.control.client import ask
from amqp_server.protocol.methods import (
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    method_frame,
)
from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

NAMES = [
    "../x",
    "..",
    ".",
    ".hidden",
    "a/b",
    "a\\b",
    "%2F",
    "%2f",
    "%",
    "ü" * 127,
    "ü" * 126 + "ux",
    "orders",
    "Orders",
    "ORDERS",
    "CON",
    "con.txt",
    "dot.",
    "dot",
    "space ",
    "space",
    "a\0b",
    "x.json",
    "x.json.tmp",
    "x",
    "~",
    "\u00e1",
    "a\u0301",
    "\u212a",
    "k",
]
VHOSTS = ["../x", "Team", "team", "ü" * 127]


def request(client: AmqpClient, method: Method, answer: str) -> None:
    """Send a method whose names the other codec refuses to send, and take its answer."""
    client.send_raw(method_frame(1, method))
    assert client.receive()[1].name == answer


def declare(client: AmqpClient) -> None:
    """Make an exchange and a queue of each name, bound with the name as the key; fill them."""
    client.open_channel(confirms=True)
    for name in NAMES:
        request(client, QueueDeclare(queue=name, durable=True), "Queue.DeclareOk")
        request(
            client,
            ExchangeDeclare(exchange=name, type="direct", durable=True),
            "Exchange.DeclareOk",
        )
        bind = QueueBind(queue=name, exchange=name, routing_key=name)
        request(client, bind, "Queue.BindOk")


def publish_to_each(client: AmqpClient, number: int) -> None:
    for name in NAMES:
        client.publish(f"{number} {name}".encode(), name, exchange=name, mandatory=True)
    client.expect_confirmed()


def expect_in_each(client: AmqpClient, numbers: list[int]) -> None:
    for name in NAMES:
        for number in numbers:
            message = client.get(name)
            assert message is not None, name
            assert message.body == f"{number} {name}".encode()
        assert client.get(name) is None


def files(directory: Path) -> list[str]:
    return [
        os.path.relpath(Path(folder, name), directory)
        for folder, _, names in os.walk(directory)
        for name in names
    ]


@pytest.mark.crash
def test_unusual_names_survive_a_stop_and_a_kill_and_stay_inside_the_directory(
    server: RunningServer,
) -> None:
    """In the virtual host `/` and in others with such names."""
    for vhost in VHOSTS:
        ask(server.storage_path, "vhosts.add", name=vhost)
    for vhost in ("/", *VHOSTS):
        with connect(server.address, vhost=vhost) as client:
            declare(client)
            publish_to_each(client, 0)
    server.terminate()
    server.restart()
    for vhost in ("/", *VHOSTS):
        with connect(server.address, vhost=vhost) as client:
            client.open_channel(confirms=True)
            publish_to_each(client, 1)
    server.kill()
    server.restart()
    for vhost in ("/", *VHOSTS):
        with connect(server.address, vhost=vhost) as client:
            client.open_channel()
            expect_in_each(client, [0, 1])
    assert not server.faults
    names = files(server.storage_path)
    assert len(names) == len({name.casefold() for name in names})
    documents = [name for name in names if name.startswith("metadata/queues/")]
    assert len(documents) == len(NAMES) * (1 + len(VHOSTS))
    assert {path.name for path in server.storage_path.parent.iterdir()} == {
        server.storage_path.name
    }
