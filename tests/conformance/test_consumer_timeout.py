"""Sections 4 and 7: deliveries that wait too long for their acknowledgement.

RabbitMQ 3.10 knows one limit for the whole node, 30 minutes; the argument is of later versions.
"""

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.consuming import consume, fill
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import ours_only
from tests.conformance.polling import eventually

TIMEOUT_MS = 300
NEWER = "RabbitMQ 3.10 has no x-consumer-timeout"


@ours_only(NEWER)
def test_a_delivery_that_nobody_acknowledges_closes_the_channel(
    client: AmqpClient, name: str
) -> None:
    fill(client, name, 1, arguments={"x-consumer-timeout": TIMEOUT_MS})
    consume(client, name)
    client.expect_delivery()
    text = (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
        f"Timeout value used: {TIMEOUT_MS} ms. This timeout value can be configured, "
        "see consumers doc guide to learn more"
    )
    expect_channel_error(client, 406, text, None)
    client.open_channel()
    message = eventually(lambda: client.get(name))
    assert message is not None
    assert message.redelivered


@ours_only(NEWER)
def test_it_concerns_its_channel_only(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    fill(client, name, 1, arguments={"x-consumer-timeout": TIMEOUT_MS})
    consume(client, name, channel=2)
    client.expect_delivery(2)
    close = client.expect_channel_close(406, 2)
    assert "on channel 2 timed out" in close.reply_text
    client.call(Basic.Qos(), Basic.QosOk)


@ours_only(NEWER)
def test_what_is_acknowledged_in_time_is_not_counted(client: AmqpClient, name: str) -> None:
    fill(client, name, 2, arguments={"x-consumer-timeout": TIMEOUT_MS})
    client.consume(name, prefetch=1)
    client.send(Basic.Ack(client.expect_delivery().tag))
    assert client.expect_delivery().tag == 2
    client.expect_channel_close(406)
    client.open_channel()
    assert eventually(lambda: client.ready_count(name)) == 1


@ours_only(NEWER)
def test_the_consumers_own_counts_more_than_the_queues(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    fill(client, name, 2, arguments={"x-consumer-timeout": TIMEOUT_MS})
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk, 1)
    consume(client, name, arguments={"x-consumer-timeout": 0}, channel=1)  # for ever
    client.expect_delivery(1)
    consume(client, name, channel=2)
    client.expect_delivery(2)
    client.expect_channel_close(406, 2)  # which began later
    client.send(Basic.Ack(1))
    client.expect_delivery(1)


@ours_only(NEWER)
def test_a_consumer_may_have_one_where_the_queue_has_none(client: AmqpClient, name: str) -> None:
    fill(client, name, 1)
    consume(client, name, arguments={"x-consumer-timeout": TIMEOUT_MS})
    client.expect_delivery()
    close = client.expect_channel_close(406)
    assert f"Timeout value used: {TIMEOUT_MS} ms." in close.reply_text


@pytest.mark.parametrize("value", ["soon", None, [1], 1.5])
def test_a_value_of_another_type_is_ignored(client: AmqpClient, name: str, value: object) -> None:
    fill(client, name, 1)
    consume(client, name, arguments={"x-consumer-timeout": value})
    client.expect_delivery()
