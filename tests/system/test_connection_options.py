"""What a server proposes to clients when an operator has set it."""

from __future__ import annotations

import pytest
from pamqp.commands import Channel, Connection

from amqp_server.base.config import ConfigError, ServerConfig
from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError, ErrorKind
from tests.amqp_client import AmqpClient, ConnectionLostError, connect
from tests.conftest import StartServer


def test_the_handshake_proposes_what_the_options_say(start_server: StartServer) -> None:
    server = start_server("--max-channels", "3", "--max-frame-size", "8KiB", "--heartbeat", "17s")
    with AmqpClient(server.address) as client:
        tune = client.login()
        assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (3, 8192, 17)
    with connect(server.address) as client:
        for number in (1, 2, 3):
            client.open_channel(number)
        client.send(Channel.Open(), 4)
        client.expect_connection_close(530)


def test_larger_frames_than_the_default_carry_messages(start_server: StartServer) -> None:
    server = start_server("--max-frame-size", "1MiB")
    body = bytes(range(256)) * 8192
    with connect(server.address) as client:
        assert client.frame_max == 1 << 20
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(body, "q")
        client.expect_confirmed()
        message = client.get("q")
        assert message is not None
        assert message.body == body


def test_one_connection_more_than_allowed_is_closed(start_server: StartServer) -> None:
    server = start_server("--max-connections", "1")
    with connect(server.address) as first, AmqpClient(server.address) as second:
        with pytest.raises(ConnectionLostError):
            second.login()
        first.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)


def test_one_vhost_more_than_allowed_is_refused(start_server: StartServer) -> None:
    server = start_server("--max-vhosts", "1")
    with pytest.raises(ControlError) as refused:
        ask(server.storage_path, "vhosts.add", name="v")
    assert refused.value.kind == ErrorKind.LIMIT_REACHED


def test_a_heartbeat_is_whole_seconds() -> None:
    ServerConfig(heartbeat_seconds=0)
    ServerConfig(heartbeat_seconds=2)
    for seconds in (1.5, 0.5, 65_536):
        with pytest.raises(ConfigError):
            ServerConfig(heartbeat_seconds=seconds)
