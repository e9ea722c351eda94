"""--consumer-timeout: the broker closes the channel of a consumer that does not answer in time."""

from typing import Any

import pytest
from pamqp.commands import Basic, Channel

from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer

SHORT_MS = 300


def expect_timed_out(client: AmqpClient) -> None:
    close = client.expect_channel_close(406)
    assert f"timed out. Timeout value used: {SHORT_MS} ms." in close.reply_text


@pytest.mark.parametrize(
    ("option", "of_queue"), [(f"{SHORT_MS}ms", {}), ("1h", {"x-consumer-timeout": SHORT_MS})]
)
def test_the_option_holds_for_queues_without_the_argument(
    start_server: StartServer, option: str, of_queue: dict[str, Any]
) -> None:
    server = start_server("--consumer-timeout", option)
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments=of_queue)
        client.consume("q")
        client.publish(b"a long task", "q")
        client.expect_delivery()
        expect_timed_out(client)

        client.open_channel()
        message = client.get("q")
        assert message is not None
        assert (message.body, message.redelivered) == (b"a long task", True)


def test_zero_and_automatic_acknowledgement_have_no_timeout(start_server: StartServer) -> None:
    server = start_server("--consumer-timeout", f"{SHORT_MS}ms")
    with connect(server.address) as client, connect(server.address) as other:
        client.open_channel()
        other.open_channel()
        client.declare("free", arguments={"x-consumer-timeout": 0})
        client.declare("automatic")
        client.declare("late")
        client.call(Basic.Consume(queue="free"), Basic.ConsumeOk)
        client.publish(b"", "free")
        assert client.expect_delivery().tag == 1
        client.call(Basic.Consume(queue="automatic", no_ack=True), Basic.ConsumeOk)
        client.publish(b"", "automatic")
        client.expect_delivery()
        other.consume("late")
        other.publish(b"", "late")
        other.expect_delivery()
        expect_timed_out(other)

        client.send(Basic.Ack(delivery_tag=1))
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
