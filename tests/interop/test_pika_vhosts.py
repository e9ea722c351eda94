"""pika on a second virtual host, named in its URL as RabbitMQ's users do."""

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker, ProbableAccessDeniedError

from amqp_server.control.client import ask
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

pytestmark = pytest.mark.interop


def connect(server: RunningServer, encoded_vhost: str) -> pika.BlockingConnection:
    url = f"amqp://guest:guest@{server.host}:{server.port}/{encoded_vhost}"
    return pika.BlockingConnection(pika.URLParameters(url))


def test_publishing_and_consuming_on_a_vhost_of_its_own(server: RunningServer) -> None:
    ask(server.storage_path, "vhosts.add", name="team/orders")
    with connect(server, "team%2Forders") as connection, connect(server, "%2F") as other:
        channel, elsewhere = connection.channel(), other.channel()
        channel.confirm_delivery()
        for each in (channel, elsewhere):
            each.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"here", pika.BasicProperties(delivery_mode=2))
        method, _, body = next(channel.consume("q", inactivity_timeout=HANG_SECONDS))
        assert body == b"here"
        channel.basic_ack(method.delivery_tag)
        assert elsewhere.basic_get("q") == (None, None, None)


def test_a_vhost_that_is_not_there_is_refused(server: RunningServer) -> None:
    with pytest.raises(ProbableAccessDeniedError, match=r"\(530\).*vhost team/orders not found"):
        connect(server, "team%2Forders")


def test_a_client_hears_that_its_vhost_was_deleted(server: RunningServer) -> None:
    ask(server.storage_path, "vhosts.add", name="team/orders")
    connection = connect(server, "team%2Forders")
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    ask(server.storage_path, "vhosts.delete", name="team/orders")
    with pytest.raises(ConnectionClosedByBroker, match="vhost 'team/orders' is deleted") as closed:
        connection.process_data_events(time_limit=HANG_SECONDS)
    assert closed.value.reply_code == 320
