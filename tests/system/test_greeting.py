"""What the server tells of itself, and a secret that is given anew."""

from typing import Any

import pytest
from pamqp.commands import Connection

from amqp_server import __version__
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer

RABBITMQ_KEYS = {
    "capabilities",
    "cluster_name",
    "copyright",
    "information",
    "platform",
    "product",
    "version",
}


def greeting(server: RunningServer) -> Connection.Start:
    """Return what the server says first."""
    with AmqpClient(server.address) as client:
        client.send_raw(PROTOCOL_HEADER)
        return client.expect(Connection.Start, 0)


def test_the_server_tells_what_rabbitmq_tells(server: RunningServer) -> None:
    start = greeting(server)
    properties: Any = start.server_properties

    assert (start.version_major, start.version_minor) == (0, 9)
    assert (start.mechanisms, start.locales) == ("PLAIN AMQPLAIN", "en_US")
    assert properties.keys() == RABBITMQ_KEYS
    assert (properties["product"], properties["version"]) == ("amqp-server", __version__)
    assert all(isinstance(properties[key], str) for key in RABBITMQ_KEYS - {"capabilities"})
    assert set(properties["capabilities"].values()) == {True}


def test_another_product_and_version_can_be_presented(start_server: StartServer) -> None:
    server = start_server("--present-product", "RabbitMQ", "--present-version", "3.13.7")
    properties: Any = greeting(server).server_properties

    assert (properties["product"], properties["version"]) == ("RabbitMQ", "3.13.7")


def test_a_new_secret_is_taken_when_it_is_the_right_one(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.call(Connection.UpdateSecret("guest", "expired"), Connection.UpdateSecretOk, 0)
        client.open_channel()


@pytest.mark.parametrize("secret", ["", "wrong"])
def test_a_wrong_new_secret_ends_the_connection(server: RunningServer, secret: str) -> None:
    with connect(server.address) as client:
        client.send(Connection.UpdateSecret(secret, "expired"), 0)
        close = client.expect_connection_close(530)
        assert close.reply_text == "NOT_ALLOWED - New secret was refused by one of the backends"
        assert (close.class_id, close.method_id) == (10, 70)
