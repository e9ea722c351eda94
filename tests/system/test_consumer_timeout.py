"""Consumers that do not answer in time lose their channel; what they had goes to others."""

import time
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer

SHORT_MS = 300
LONG_MS = 600_000


def expect_timed_out(client: AmqpClient, *, timeout_ms: int) -> None:
    close = client.expect_channel_close(406)
    assert close.reply_text == (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value "
        f"used: {timeout_ms} ms. This timeout value can be configured, see consumers doc guide "
        "to learn more"
    )
    assert (close.class_id, close.method_id) == (0, 0)


@pytest.mark.parametrize(
    ("options", "of_queue", "of_consumer"),
    [
        ((), {}, {"x-consumer-timeout": SHORT_MS}),
        ((), {"x-consumer-timeout": SHORT_MS}, {}),
        (("--consumer-timeout", f"{SHORT_MS}ms"), {}, {}),
        ((), {"x-consumer-timeout": LONG_MS}, {"x-consumer-timeout": SHORT_MS}),
        (("--consumer-timeout", "1h"), {"x-consumer-timeout": SHORT_MS}, {}),
    ],
)
def test_a_channel_with_a_late_answer_is_closed_and_the_message_is_for_others(
    start_server: StartServer,
    options: tuple[str, ...],
    of_queue: dict[str, Any],
    of_consumer: dict[str, Any],
) -> None:
    server = start_server(*options)
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments=of_queue)
        client.call(Basic.Consume(queue="q", arguments=of_consumer), Basic.ConsumeOk)
        client.publish(b"a long task", "q")
        client.expect_delivery()
        expect_timed_out(client, timeout_ms=SHORT_MS)

        client.open_channel()
        message = client.get("q")
        assert message is not None
        assert (message.body, message.redelivered) == (b"a long task", True)


def answers_in_time(client: AmqpClient, timed: dict[str, Any]) -> bool:
    """Answer a delivery; return whether that was in time, and not when a machine stood still."""
    client.open_channel()
    client.call(Basic.Consume(queue="q", arguments=timed), Basic.ConsumeOk)
    begun = time.monotonic()
    client.publish(b"", "q")
    client.send(Basic.Ack(delivery_tag=client.expect_delivery().tag))
    client.send(Queue.Declare(queue="q", passive=True))
    _, answer = client.receive()
    if time.monotonic() - begun < SHORT_MS / 1000:
        assert isinstance(answer, Queue.DeclareOk)
        return True
    if isinstance(answer, Channel.Close):
        client.send(Channel.CloseOk())
    else:
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    return False


def test_who_answers_in_time_keeps_the_channel(server: RunningServer) -> None:
    timed: dict[str, Any] = {"x-consumer-timeout": SHORT_MS}
    with connect(server.address) as client, connect(server.address) as other:
        other.open_channel()
        other.declare("q")
        other.declare("late")
        while not answers_in_time(client, timed):
            pass
        # Another channel is late meanwhile: when it hears so, the time is over for the first.
        other.call(Basic.Consume(queue="late", arguments=timed), Basic.ConsumeOk)
        other.publish(b"", "late")
        other.expect_delivery()
        expect_timed_out(other, timeout_ms=SHORT_MS)

        client.publish(b"goes on", "q")
        assert client.expect_delivery().body == b"goes on"
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)


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
        expect_timed_out(other, timeout_ms=SHORT_MS)

        client.send(Basic.Ack(delivery_tag=1))
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (-1, "{value_negative,-1}"),
        (315_360_000_001, "{value_too_large,315360000001}"),
    ],
)
def test_a_timeout_that_is_none_is_refused(server: RunningServer, value: int, fault: str) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.send(Basic.Consume(queue="q", arguments={"x-consumer-timeout": value}))
        close = client.expect_channel_close(406)
        assert close.reply_text == (
            "PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/': "
            + fault
        )
        assert (close.class_id, close.method_id) == (60, 20)
