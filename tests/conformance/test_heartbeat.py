"""Section 1: heartbeats, ours and theirs. Seconds are the subject, so these tests take some."""

import time

import pytest
from pamqp import heartbeat
from pamqp.commands import Queue

from tests.amqp_client import frame_octets
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_connection_error

pytestmark = pytest.mark.timeout(30)


def test_a_silent_client_is_dropped_without_a_word(connect: Connect) -> None:
    client = connect(heartbeat_seconds=1)
    began = time.monotonic()
    client.expect_end()
    assert time.monotonic() - began > 1


def test_the_server_sends_heartbeats(connect: Connect) -> None:
    client = connect(heartbeat_seconds=2)
    number, value = client.receive()
    assert isinstance(value, heartbeat.Heartbeat)
    assert number == 0


def test_a_client_that_sends_heartbeats_lives_on(connect: Connect) -> None:
    client = connect(heartbeat_seconds=1)
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        client.receive()
        client.send(heartbeat.Heartbeat(), 0)
    client.send(Queue.Declare(queue="", exclusive=True))
    client.expect(Queue.DeclareOk)


def test_any_traffic_counts_as_a_heartbeat(connect: Connect) -> None:
    client = connect(heartbeat_seconds=1)
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        client.receive()
        client.publish(b"", "nobody-at-all")
    client.send(Queue.Declare(queue="", exclusive=True))
    client.expect(Queue.DeclareOk)


def test_no_heartbeats_are_asked_for_or_sent_at_zero_seconds(connect: Connect) -> None:
    client = connect(heartbeat_seconds=0)
    client.socket.settimeout(2)
    with pytest.raises(TimeoutError):
        client.receive()
    client.open_channel(2)


@pytest.mark.parametrize("channel", [1, 7])
def test_a_heartbeat_on_a_channel_is_an_unexpected_frame(connect: Connect, channel: int) -> None:
    client = connect()
    client.send_raw(frame_octets(8, channel, b""))
    text = "UNEXPECTED_FRAME - type 8, all octets = <<>>"
    expect_connection_error(client, 505, text, None)
