"""Protocol header, greeting, login and tuning."""

import socket
import struct
from functools import partial
from typing import Any

import pytest
from pamqp import encode
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, ConnectionLostError
from tests.conformance.broker import Broker
from tests.conformance.conftest import Connect, Dial
from tests.conformance.errors import expect_connection_error
from tests.conformance.marks import differs, differs_from_3_10

CAPABILITIES = {
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
}
WITHOUT_A_REASON = differs(
    rabbitmq="drops the connection after three seconds, without a word",
    reason="the client learns why",
)
ANOTHER_HEADER = partial(
    differs,
    rabbitmq="names AMQP 1.0 in its answer, or speaks it; 3.10 greets a client of 0-8 with 8.0",
    reason="this broker speaks AMQP 0-9-1 alone",
)


def read_to_end(client: AmqpClient) -> bytes:
    """Return everything that comes before the server closes."""
    received = b""
    try:
        while True:
            received += client.receive_raw()
    except ConnectionLostError:
        return received


@ANOTHER_HEADER(since=4)
@pytest.mark.parametrize(
    "octets",
    [
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"\x93\x01\x00garbage",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["amqp_1_0", "sasl", "garbage", "http", "tls"],
)
def test_another_protocol_is_answered_with_eight_octets_and_the_end(
    dial: Dial, octets: bytes
) -> None:
    client = dial()
    client.send_raw(octets)
    assert read_to_end(client) == PROTOCOL_HEADER


def test_a_protocol_header_may_come_octet_by_octet(dial: Dial) -> None:
    client = dial()
    for octet in PROTOCOL_HEADER:
        client.send_raw(bytes([octet]))
        # By the time another client is greeted, the broker has read this octet alone.
        other = dial()
        other.send_raw(PROTOCOL_HEADER)
        other.expect(Connection.Start, 0)
    client.expect(Connection.Start, 0)


def test_half_a_protocol_header_is_not_answered(dial: Dial) -> None:
    client = dial()
    client.send_raw(PROTOCOL_HEADER[:5])
    client.socket.shutdown(socket.SHUT_WR)
    assert read_to_end(client) == b""


def test_the_older_protocol_header_is_taken(dial: Dial) -> None:
    client = dial()
    client.send_raw(b"AMQP\x01\x01\x00\x09")
    client.expect(Connection.Start, 0)


@differs(
    rabbitmq="drops a connection whose login is more than one frame of 8192 octets; 3.10: of 4096",
    reason="tokens of logins and client properties may be longer",
)
def test_client_properties_may_be_long(dial: Dial) -> None:
    client = dial()
    client.login(properties={"long": "x" * 60_000})


@ANOTHER_HEADER(since=3)
def test_a_client_of_amqp_0_8_is_answered_with_eight_octets_and_the_end(dial: Dial) -> None:
    client = dial()
    client.send_raw(b"AMQP\x01\x01\x08\x00")
    assert read_to_end(client) == PROTOCOL_HEADER


def test_the_greeting_names_version_mechanisms_and_locale(dial: Dial) -> None:
    client = dial()
    client.send_raw(PROTOCOL_HEADER)
    start = client.expect(Connection.Start, 0)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.locales == "en_US"
    assert set(start.mechanisms.split(" ")) >= {"PLAIN", "AMQPLAIN"}


def test_the_server_properties_are_strings(client: AmqpClient) -> None:
    properties = client.server_properties
    keys = {"product", "version", "platform", "copyright", "information", "cluster_name"}
    assert properties.keys() == keys | {"capabilities"}
    assert all(isinstance(properties[key], str) and properties[key] for key in keys)
    assert [part.isdigit() for part in properties["version"].split(".")] == [True] * 3


@differs(
    rabbitmq="is called RabbitMQ",
    reason="clients switch on features by the name and the version, which are not ours",
)
def test_the_server_has_a_name_of_its_own(client: AmqpClient) -> None:
    assert client.server_properties["product"] == "amqp-server"


@differs(
    rabbitmq="offers ANONYMOUS, which logs in as guest",
    reason="a client that reaches the port should need a password",
    since=4,
)
def test_no_client_logs_in_without_a_password(dial: Dial) -> None:
    client = dial()
    client.start(mechanism="ANONYMOUS", response="", capabilities={})
    assert read_to_end(client) == b""


def test_the_server_has_the_capability_connection_blocked(client: AmqpClient) -> None:
    assert client.server_properties["capabilities"]["connection.blocked"] is True


@pytest.mark.parametrize("capability", sorted(CAPABILITIES - {"connection.blocked"}))
def test_the_server_has_the_capability(client: AmqpClient, capability: str) -> None:
    assert client.server_properties["capabilities"][capability] is True


def test_the_server_has_no_capability_that_rabbitmq_does_not_have(client: AmqpClient) -> None:
    capabilities = client.server_properties["capabilities"]
    assert capabilities.keys() <= CAPABILITIES
    assert set(capabilities.values()) == {True}


@pytest.mark.parametrize("identity", ["someone", "guest"])
def test_plain_takes_no_identity_to_act_as(broker: Broker, dial: Dial, identity: str) -> None:
    client = dial()
    response = f"{identity}\0{broker.url.user}\0{broker.url.password}"
    client.start(response=response, capabilities={})
    assert read_to_end(client) == b""


def test_amqplain_takes_name_and_password_from_a_table(broker: Broker, dial: Dial) -> None:
    client = dial()
    table: Any = {"LOGIN": broker.url.user, "PASSWORD": broker.url.password}
    client.start(mechanism="AMQPLAIN", response=encode.field_table(table)[4:].decode())
    client.expect(Connection.Tune, 0)


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
@pytest.mark.parametrize("user", [None, "nobody-at-all"], ids=["known", "unknown"])
@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_refused_login_is_reported_to_a_client_that_asks_for_it(
    broker: Broker, dial: Dial, mechanism: str, user: str | None, password: str
) -> None:
    table: Any = {"LOGIN": user or broker.url.user, "PASSWORD": password}
    plain = f"\0{user or broker.url.user}\0{password}"
    client = dial()
    client.start(
        mechanism=mechanism,
        response=plain if mechanism == "PLAIN" else encode.field_table(table)[4:].decode(),
    )
    text = (
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile."
    )
    expect_connection_error(client, 403, text, None)


def test_a_password_of_amqplain_that_is_no_string_is_wrong(broker: Broker, dial: Dial) -> None:
    table: Any = {"LOGIN": broker.url.user, "PASSWORD": 7}
    client = dial()
    client.start(mechanism="AMQPLAIN", response=encode.field_table(table)[4:].decode())
    client.expect_connection_close(403)


@WITHOUT_A_REASON
def test_amqplain_needs_a_password(broker: Broker, dial: Dial) -> None:
    table: Any = {"LOGIN": broker.url.user}
    client = dial()
    client.start(mechanism="AMQPLAIN", response=encode.field_table(table)[4:].decode())
    text = "SYNTAX_ERROR - malformed AMQPLAIN response: expected LOGIN and PASSWORD"
    expect_connection_error(client, 502, text, Connection.StartOk)


@pytest.mark.parametrize("capabilities", [{}, {"authentication_failure_close": False}])
def test_a_refused_login_just_ends_the_connection_of_other_clients(
    dial: Dial, capabilities: dict[str, bool]
) -> None:
    client = dial()
    client.start(user="nobody-at-all", password="wrong", capabilities=capabilities)
    assert read_to_end(client) == b""


@WITHOUT_A_REASON
def test_an_unknown_mechanism_is_refused(dial: Dial) -> None:
    client = dial()
    client.start(mechanism="NONSENSE")
    text = "COMMAND_INVALID - unknown authentication mechanism 'NONSENSE'"
    expect_connection_error(client, 503, text, Connection.StartOk)


def test_an_unknown_mechanism_just_ends_the_connection_of_other_clients(dial: Dial) -> None:
    client = dial()
    client.start(mechanism="NONSENSE", capabilities={})
    assert read_to_end(client) == b""


@WITHOUT_A_REASON
@pytest.mark.parametrize("response", ["", "guest", "\0guest", "\0a\0b\0c", "someone\0guest\0guest"])
def test_an_invalid_plain_response_is_malformed(dial: Dial, response: str) -> None:
    client = dial()
    client.start(response=response)
    text = "SYNTAX_ERROR - malformed PLAIN response: expected NUL user NUL password"
    expect_connection_error(client, 502, text, Connection.StartOk)


def test_a_large_table_of_client_properties_is_taken(connect: Connect, name: str) -> None:
    properties = {"connection_name": "large", **{f"key-{n}": "x" * 100 for n in range(35)}}
    client = connect(properties=properties, capabilities={"consumer_cancel_notify": True})
    client.declare(name)
    client.consume(name)
    client.open_channel(2)
    client.send(Queue.Delete(queue=name), 2)
    # What stands in front of the long values was read as well.
    methods = {type(client.receive()[1]) for _ in range(2)}
    assert methods == {Queue.DeleteOk, Basic.Cancel}


def test_the_usual_tuning_is_proposed(broker: Broker, dial: Dial) -> None:
    tune = dial().login(user=broker.url.user, password=broker.url.password)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131_072, 60)


@pytest.mark.parametrize(
    ("channel_max", "frame_max"), [(2047, 131_072), (1, 131_072), (2047, 4096), (10, 8192)]
)
def test_a_client_may_ask_for_less(connect: Connect, channel_max: int, frame_max: int) -> None:
    client = connect(channel_max=channel_max, frame_max=frame_max)
    client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)


@differs_from_3_10("drops the connection after three seconds, without a word")
@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (2047, 4095, "frame_max = 4095 is lower than the minimum allowed value (4096)"),
        (2047, 131_073, "frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (2047, 0, "frame_max = 0 is higher than the maximum allowed value (131072)"),
        (2048, 131_072, "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (0, 131_072, "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
    ],
)
def test_tuning_past_what_was_proposed_is_refused(
    broker: Broker, dial: Dial, channel_max: int, frame_max: int, text: str
) -> None:
    client = dial()
    client.login(user=broker.url.user, password=broker.url.password)
    client.send(Connection.TuneOk(channel_max, frame_max, 0), 0)
    expect_connection_error(client, 530, f"NOT_ALLOWED - negotiated {text}", Connection.TuneOk)


@WITHOUT_A_REASON
def test_a_step_of_the_handshake_may_not_be_left_out(broker: Broker, dial: Dial) -> None:
    client = dial()
    client.login(user=broker.url.user, password=broker.url.password)
    client.send(Connection.Open(broker.url.vhost), 0)
    text = "CHANNEL_ERROR - unexpected method in connection state tuning"
    expect_connection_error(client, 504, text, Connection.Open)


@WITHOUT_A_REASON
@pytest.mark.parametrize(
    ("method", "octets"),
    [
        (Channel.Open(), "<<0,20,0,10,1,48>>"),
        (Basic.Ack(1), "<<0,60,0,80,0,0,0,0,0,0,0,1,0>>"),
    ],
    ids=["open", "ack"],
)
def test_a_method_of_a_channel_before_the_virtual_host_is_refused(
    broker: Broker, dial: Dial, method: Frame, octets: str
) -> None:
    client = dial()
    client.login(user=broker.url.user, password=broker.url.password)
    client.send(method, 1)
    text = f"UNEXPECTED_FRAME - type 1, all octets = {octets}"
    expect_connection_error(client, 505, text, None)


def test_opening_answers_with_no_known_hosts(broker: Broker, dial: Dial) -> None:
    client = dial()
    client.login(user=broker.url.user, password=broker.url.password)
    client.send(Connection.TuneOk(2047, 131_072, 0), 0)
    opened = client.call(Connection.Open(broker.url.vhost), Connection.OpenOk, 0)
    assert opened.known_hosts == ""


def test_an_unknown_virtual_host_is_refused(broker: Broker, dial: Dial, name: str) -> None:
    client = dial()
    client.login(user=broker.url.user, password=broker.url.password)
    client.send(Connection.TuneOk(2047, 131_072, 0), 0)
    client.send(Connection.Open(name), 0)
    text = f"NOT_ALLOWED - vhost {name} not found"
    expect_connection_error(client, 530, text, Connection.Open)


def test_the_handshake_may_come_in_one_piece(broker: Broker, dial: Dial) -> None:
    client = dial()
    client.send_raw(PROTOCOL_HEADER)
    client.expect(Connection.Start, 0)
    response = f"\0{broker.url.user}\0{broker.url.password}"
    client.send(Connection.StartOk({}, "PLAIN", response, "en_US"), 0)
    client.send(Connection.TuneOk(2047, 131_072, 0), 0)
    client.send(Connection.Open(broker.url.vhost), 0)
    client.expect(Connection.Tune, 0)
    client.expect(Connection.OpenOk, 0)


def test_a_client_that_names_no_capabilities_is_taken(connect: Connect) -> None:
    connect(capabilities={})


def test_an_empty_table_of_client_properties_is_taken(broker: Broker, dial: Dial) -> None:
    client = dial()
    client.send_raw(PROTOCOL_HEADER)
    client.expect(Connection.Start, 0)
    response = f"\0{broker.url.user}\0{broker.url.password}".encode()
    start_ok = struct.pack(">HHI", 10, 11, 0) + b"\x05PLAIN"
    client.send_method(start_ok + struct.pack(">I", len(response)) + response + b"\x05en_US", 0)
    client.expect(Connection.Tune, 0)
