"""What the server says of itself, which options change that, and how it logs a new secret."""

from typing import Any

import pytest
from pamqp.commands import Basic, Connection

from amqp_server import __version__
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer


def greeting(server: RunningServer) -> Connection.Start:
    """Return what the server says first."""
    with AmqpClient(server.address) as client:
        client.send_raw(PROTOCOL_HEADER)
        return client.expect(Connection.Start, 0)


def test_the_greeting_has_the_version_of_the_package_and_two_mechanisms(
    server: RunningServer,
) -> None:
    start = greeting(server)
    properties: Any = start.server_properties

    assert start.mechanisms == "PLAIN AMQPLAIN"
    assert (properties["product"], properties["version"]) == ("amqp-server", __version__)


def test_another_product_and_version_can_be_presented(start_server: StartServer) -> None:
    server = start_server("--present-product", "RabbitMQ", "--present-version", "3.13.7")
    properties: Any = greeting(server).server_properties

    assert (properties["product"], properties["version"]) == ("RabbitMQ", "3.13.7")


@pytest.mark.parametrize("product", ["RabbitMQ", "LavinMQ"])
def test_celery_changes_the_prefetch_of_running_consumers_unless_the_product_is_rabbitmq(
    start_server: StartServer, product: str
) -> None:
    """Without `global`; it does so unless the server calls itself RabbitMQ."""
    server = start_server("--present-product", product)
    with connect(server.address, properties={"product": "py-amqp"}) as client:
        client.open_channel()
        client.declare("q")
        for _ in range(3):
            client.publish(b"", "q")
        client.consume("q", prefetch=1)
        client.expect_delivery()
        client.call(Basic.Qos(prefetch_count=2), Basic.QosOk)
        if product == "RabbitMQ":
            assert client.ready_count("q") == 2
        else:
            client.expect_delivery()


@pytest.mark.parametrize("secret", ["guest", "", "not-the-one"])
def test_a_new_secret_is_taken_and_logged_without_it(server: RunningServer, secret: str) -> None:
    with connect(server.address) as client:
        client.call(Connection.UpdateSecret(secret, "it's\nold"), Connection.UpdateSecretOk, 0)
        client.open_channel()
    line = server.wait_for_message("secret renewed")
    assert "level=info" in line
    assert r"""user='guest' reason="it's\nold" """ in line
    assert "not-the-one" not in line
