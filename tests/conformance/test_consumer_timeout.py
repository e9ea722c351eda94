"""A delivery that is not acknowledged in time closes its channel.

RabbitMQ 3.10 knows one limit for the whole node, 30 minutes; the argument is of later versions.
"""

import time

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import consume, fill
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import ours_only
from tests.conformance.polling import eventually

TIMEOUT_MS = 300
TIMED = {"x-consumer-timeout": TIMEOUT_MS}
NEWER = "RabbitMQ 3.10 has no x-consumer-timeout"


@ours_only(NEWER)
def test_an_unacknowledged_delivery_closes_the_channel(client: AmqpClient, name: str) -> None:
    fill(client, name, 1, arguments=TIMED)
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
    assert (message.body, message.redelivered) == (b"0", True)


@ours_only(NEWER)
def test_it_concerns_its_channel_only(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    fill(client, name, 1, arguments=TIMED)
    consume(client, name, channel=2)
    client.expect_delivery(2)
    close = client.expect_channel_close(406, 2)
    assert "on channel 2 timed out" in close.reply_text
    client.call(Basic.Qos(), Basic.QosOk)


def answers_in_time(client: AmqpClient, queue: str) -> bool:
    """Answer a delivery; return False when the machine stood still for too long."""
    client.open_channel()
    consume(client, queue, arguments=TIMED)
    begun = time.monotonic()
    client.publish(b"", queue)
    client.send(Basic.Ack(client.expect_delivery().tag))
    client.send(Queue.Declare(queue=queue, passive=True))
    _, answer = client.receive()
    if time.monotonic() - begun < TIMEOUT_MS / 1000:
        assert isinstance(answer, Queue.DeclareOk)
        return True
    if isinstance(answer, Channel.Close):
        client.send(Channel.CloseOk())
    else:
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    return False


@ours_only(NEWER)
def test_a_consumer_that_answers_in_time_keeps_its_channel(
    connect: Connect, new_name: NewName
) -> None:
    client, other = connect(channels=0), connect()
    queue, late = new_name(), new_name()
    other.declare(queue)
    other.declare(late)
    while not answers_in_time(client, queue):
        pass
    # The timeout of this later delivery ends after that of the answered one.
    consume(other, late, arguments=TIMED)
    other.publish(b"", late)
    other.expect_delivery()
    other.expect_channel_close(406)

    client.publish(b"goes on", queue)
    assert client.expect_delivery().body == b"goes on"
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)


@ours_only(NEWER)
@pytest.mark.parametrize(
    ("value", "fault"),
    [(-1, "{value_negative,-1}"), (315_360_000_001, "{value_too_large,315360000001}")],
)
def test_a_timeout_out_of_range_is_refused(
    client: AmqpClient, name: str, value: int, fault: str
) -> None:
    client.declare(name)
    client.send(Basic.Consume(queue=name, arguments={"x-consumer-timeout": value}))
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue '{name}' in vhost '/': "
        f"{fault}"
    )
    expect_channel_error(client, 406, text, Basic.Consume)


@ours_only(NEWER)
@pytest.mark.parametrize("asked_of", ["queue", "consumer"])
def test_a_consumer_of_a_stream_has_a_timeout_too(
    client: AmqpClient, name: str, asked_of: str
) -> None:
    of_queue, of_consumer = (TIMED, {}) if asked_of == "queue" else ({}, TIMED)
    fill(client, name, 1, arguments={"x-queue-type": "stream"} | of_queue)
    arguments = {"x-stream-offset": "first"} | of_consumer
    client.consume(name, prefetch=10, arguments=arguments)
    client.expect_delivery()
    assert "timed out" in client.expect_channel_close(406).reply_text


@ours_only(NEWER)
def test_the_consumers_own_counts_more_than_the_queues(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    fill(client, name, 2, arguments=TIMED)
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk, 1)
    consume(client, name, arguments={"x-consumer-timeout": 0}, channel=1)  # for ever
    client.expect_delivery(1)
    consume(client, name, channel=2)
    client.expect_delivery(2)
    client.expect_channel_close(406, 2)  # which began later
    client.send(Basic.Ack(1))
    client.expect_delivery(1)


@ours_only(NEWER)
@pytest.mark.parametrize("of_queue", [{}, {"x-consumer-timeout": 600_000}], ids=["none", "longer"])
def test_a_consumer_may_have_a_shorter_timeout_than_its_queue(
    client: AmqpClient, name: str, of_queue: dict[str, int]
) -> None:
    fill(client, name, 1, arguments=of_queue)
    consume(client, name, arguments=TIMED)
    client.expect_delivery()
    close = client.expect_channel_close(406)
    assert f"Timeout value used: {TIMEOUT_MS} ms." in close.reply_text


@pytest.mark.parametrize("value", ["soon", None, [1], 1.5])
def test_a_value_of_another_type_is_ignored(client: AmqpClient, name: str, value: object) -> None:
    fill(client, name, 1)
    consume(client, name, arguments={"x-consumer-timeout": value})
    client.expect_delivery()
