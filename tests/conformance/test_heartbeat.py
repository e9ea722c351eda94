"""Heartbeats of both sides. Seconds are the subject, so these tests take some."""

import time
from collections.abc import Callable

import pytest
from pamqp import heartbeat
from pamqp.commands import Queue

from tests.amqp_client import AmqpClient, ConnectionLostError, frame_octets
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_connection_error

LIFETIME_SECONDS = 3


def test_a_silent_client_is_disconnected_without_a_close(connect: Connect) -> None:
    client = connect(heartbeat_seconds=1)
    began = time.monotonic()
    client.expect_end()
    assert time.monotonic() - began > 1


def test_the_server_sends_heartbeats(connect: Connect) -> None:
    client = connect(heartbeat_seconds=2)
    number, value = client.receive()
    assert isinstance(value, heartbeat.Heartbeat)
    assert number == 0


def lives_on(client: AmqpClient, send: Callable[[AmqpClient], object]) -> bool:
    """Send something whenever the broker does; return whether the client is still connected.

    A client that was dropped was silent for longer than a heartbeat: the machine stood still.
    """
    began = sent = time.monotonic()
    silent_seconds = 0.0
    try:
        while sent - began < LIFETIME_SECONDS:
            client.receive()
            silent_seconds = max(silent_seconds, time.monotonic() - sent)
            sent = time.monotonic()
            send(client)
        client.send(Queue.Declare(queue="", exclusive=True))
        while not isinstance(client.receive()[1], Queue.DeclareOk):
            pass
    except (ConnectionLostError, ConnectionError):
        silent_seconds = max(silent_seconds, time.monotonic() - sent)
        assert silent_seconds > 1, "dropped, though it was not silent"
        return False
    return True


@pytest.mark.parametrize(
    "send",
    [
        lambda client: client.send(heartbeat.Heartbeat(), 0),
        lambda client: client.publish(b"", "nobody-at-all"),
    ],
    ids=["heartbeats", "any traffic"],
)
def test_a_client_that_sends_anything_stays_connected(
    connect: Connect, send: Callable[[AmqpClient], object]
) -> None:
    while not lives_on(connect(heartbeat_seconds=1), send):
        pass


def test_with_zero_seconds_no_heartbeats_are_sent_or_expected(connect: Connect) -> None:
    client, other = connect(heartbeat_seconds=0), connect(heartbeat_seconds=1)
    # Of the other one, the broker's heartbeats come until it is dropped for its silence.
    other.expect_end()
    client.open_channel(2)


@pytest.mark.parametrize("channel", [1, 7])
def test_a_heartbeat_on_a_channel_is_an_unexpected_frame(connect: Connect, channel: int) -> None:
    client = connect()
    client.send_raw(frame_octets(8, channel, b""))
    text = "UNEXPECTED_FRAME - type 8, all octets = <<>>"
    expect_connection_error(client, 505, text, None)
