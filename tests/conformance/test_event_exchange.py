"""The exchange amq.rabbitmq.event: what happens in the broker, as messages without a body."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from tests.amqp_client import AmqpClient, Message
from tests.conformance.administration import Administration
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error

EVENTS = "amq.rabbitmq.event"
SHARED = {"timestamp_in_ms", "user_who_performed_action"}


class Observer:
    """A queue that is bound to the exchange, and a consumer of it."""

    def __init__(self, client: AmqpClient, queue: str, key: str) -> None:
        self._client = client
        client.call(Queue.Declare(queue=queue, exclusive=True), Queue.DeclareOk)
        client.call(Queue.Bind(queue=queue, exchange=EVENTS, routing_key=key), Queue.BindOk)
        client.consume(queue, no_ack=True)

    def message(self, key: str, is_wanted: Callable[[dict[str, Any]], bool]) -> Message:
        """Return the next event with a routing key that is wanted; others are passed over."""
        while True:
            message = self._client.expect_delivery()
            headers = message.properties.headers or {}
            assert isinstance(message.method, Basic.Deliver)
            if message.method.routing_key == key and is_wanted(headers):
                assert message.method.exchange == EVENTS
                assert message.body == b""
                assert message.properties.delivery_mode == 2
                assert message.properties.timestamp is not None
                return message

    def both(self, first: str, second: str, queue: str) -> dict[str, dict[str, Any]]:
        """Return the headers of two events of a queue, whichever comes first, by routing key."""
        seen: dict[str, dict[str, Any]] = {}
        while len(seen) < 2:
            message = self._client.expect_delivery()
            headers = message.properties.headers or {}
            assert isinstance(message.method, Basic.Deliver)
            key = str(message.method.routing_key)
            if key in (first, second) and queue in (
                headers.get("name"),
                headers.get("destination_name"),
            ):
                seen[key] = headers
        return seen

    def headers(self, key: str, **wanted: object) -> dict[str, Any]:
        """Return the headers of the next event with a routing key and with some headers."""
        message = self.message(key, lambda found: wanted.items() <= found.items())
        assert message.properties.headers is not None
        return message.properties.headers


Observe = Callable[[str], Observer]


@pytest.fixture
def observe(connect: Connect, new_name: NewName) -> Observe:
    """Return a function that begins to observe the events of a routing pattern."""
    return lambda key: Observer(connect(), new_name(), key)


def names(headers: dict[str, Any]) -> set[str]:
    return set(headers) - SHARED


def test_it_is_an_internal_topic_exchange_that_clients_can_declare(client: AmqpClient) -> None:
    declare = Exchange.Declare(exchange=EVENTS, exchange_type="topic", durable=True, internal=True)
    client.call(declare, Exchange.DeclareOk)


def test_clients_cannot_publish_to_it(client: AmqpClient) -> None:
    client.publish(b"", "key", EVENTS)
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{EVENTS}' in vhost '/'"
    expect_channel_error(client, 403, text, Basic.Publish)


def test_clients_cannot_delete_it(client: AmqpClient) -> None:
    client.send(Exchange.Delete(exchange=EVENTS))
    text = f"ACCESS_REFUSED - deletion of system exchange '{EVENTS}' in vhost '/' not allowed"
    expect_channel_error(client, 403, text, Exchange.Delete)


def test_a_queue_and_its_bindings(client: AmqpClient, observe: Observe, new_name: NewName) -> None:
    events = observe("#")
    queue, exchange = new_name(), new_name()
    arguments: Any = {"x-max-length": 5, "x-dead-letter-exchange": "dlx é"}
    client.call(Queue.Declare(queue=queue, durable=True, arguments=arguments), Queue.DeclareOk)
    created = events.headers("queue.created", name=queue)
    assert names(created) == {
        "name",
        "vhost",
        "durable",
        "auto_delete",
        "exclusive",
        "arguments",
        "owner_pid",
    }
    assert (created["durable"], created["exclusive"], created["owner_pid"]) == (True, False, "")
    assert created["user_who_performed_action"] == "guest"
    exchange_name = '{<<"x-dead-letter-exchange">>,longstr,<<"dlx é">>}'
    assert exchange_name in created["arguments"]
    assert any(
        re.fullmatch(r'\{<<"x-max-length">>,[a-z]+,5\}', each) for each in created["arguments"]
    )

    client.call(Exchange.Declare(exchange=exchange, exchange_type="topic"), Exchange.DeclareOk)
    declared = events.headers("exchange.created", name=exchange)
    assert names(declared) == {
        "name",
        "vhost",
        "type",
        "durable",
        "auto_delete",
        "internal",
        "arguments",
        "policy",
    }
    assert (declared["type"], declared["arguments"], declared["policy"]) == ("topic", [], "")

    bind = Queue.Bind(queue=queue, exchange=exchange, routing_key="a.*")
    client.call(bind, Queue.BindOk)
    bound = events.headers("binding.created", destination_name=queue)
    ends = {
        "source_name": exchange,
        "source_kind": "exchange",
        "destination_name": queue,
        "destination_kind": "queue",
        "routing_key": "a.*",
        "arguments": [],
        "vhost": "/",
    }
    assert {name: bound[name] for name in names(bound)} == ends

    client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
    # RabbitMQ tells of the bindings first, this broker of the queue.
    seen = events.both("binding.deleted", "queue.deleted", queue)
    assert {name: seen["binding.deleted"][name] for name in ends} == ends
    assert names(seen["queue.deleted"]) == {"name", "vhost"}

    client.call(Exchange.Delete(exchange=exchange), Exchange.DeleteOk)
    assert names(events.headers("exchange.deleted", name=exchange)) == {"name", "vhost"}


def test_quorum_queues_name_their_type(
    client: AmqpClient, observe: Observe, new_name: NewName
) -> None:
    events, queue = observe("queue.created"), new_name()
    client.declare(queue, arguments={"x-queue-type": "quorum"})
    created = events.headers("queue.created", name=queue)
    assert created["type"] == "rabbit_quorum_queue"
    assert "owner_pid" not in created


def test_an_exclusive_queue_names_its_connection(connect: Connect, observe: Observe) -> None:
    events = observe("#")
    owner = connect(properties={"connection_name": "the owner"})
    opened = events.headers("connection.created", user_provided_name="the owner")
    declared = owner.call(Queue.Declare(queue="", exclusive=True), Queue.DeclareOk)
    created = events.headers("queue.created", name=declared.queue)
    assert created["owner_pid"] == opened["pid"]
    owner.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
    assert events.headers("queue.deleted", name=declared.queue)["vhost"] == "/"


def test_the_life_of_a_connection(connect: Connect, observe: Observe, new_name: NewName) -> None:
    events, name = observe("#"), new_name()
    seen = connect(properties={"connection_name": name, "team": "orders"})
    host, port = seen.socket.getsockname()
    login = events.headers("user.authentication.success", peer_port=port)
    assert set(login) == {
        "timestamp_in_ms",
        "name",
        "connection_name",
        "connection_type",
        "host",
        "peer_host",
        "peer_port",
        "protocol",
        "auth_mechanism",
        "ssl",
    }
    assert login["peer_host"] == f"{{{host.replace('.', ',')}}}"
    assert (login["protocol"], login["auth_mechanism"]) == ("{0,9,1}", "PLAIN")

    opened = events.headers("connection.created", user_provided_name=name)
    assert opened["name"] == login["connection_name"]
    assert names(opened) == {
        "auth_mechanism",
        "channel_max",
        "client_properties",
        "connected_at",
        "frame_max",
        "host",
        "name",
        "node",
        "peer_cert_issuer",
        "peer_cert_subject",
        "peer_cert_validity",
        "peer_host",
        "peer_port",
        "pid",
        "port",
        "protocol",
        "ssl",
        "ssl_cipher",
        "ssl_hash",
        "ssl_key_exchange",
        "ssl_protocol",
        "timeout",
        "type",
        "user",
        "user_provided_name",
        "vhost",
    }
    entries = (
        f'{{<<"connection_name">>,longstr,<<"{name}">>}}',
        '{<<"team">>,longstr,<<"orders">>}',
    )
    assert set(entries) <= set(opened["client_properties"])

    channel = events.headers("channel.created", connection=opened["pid"])
    assert names(channel) == {"pid", "name", "number", "connection", "user", "vhost"}
    assert (channel["number"], channel["name"]) == (1, f"{opened['name']} (1)")

    queue = new_name()
    seen.declare(queue)
    consume = Basic.Consume(
        queue=queue, consumer_tag="tag", exclusive=True, arguments={"x-priority": -7}
    )
    seen.call(Basic.Qos(prefetch_count=9), Basic.QosOk)
    seen.call(consume, Basic.ConsumeOk)
    consumer = events.headers("consumer.created", consumer_tag="tag")
    assert names(consumer) == {
        "consumer_tag",
        "queue",
        "vhost",
        "channel",
        "ack_required",
        "exclusive",
        "prefetch_count",
        "arguments",
    }
    assert (consumer["queue"], consumer["channel"]) == (queue, channel["pid"])
    assert (consumer["ack_required"], consumer["exclusive"]) == (True, True)
    assert consumer["prefetch_count"] == 9
    assert consumer["arguments"][0].endswith(",-7}")

    seen.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    cancelled = events.headers("consumer.deleted", channel=channel["pid"])
    assert names(cancelled) == {"consumer_tag", "queue", "vhost", "channel"}
    assert names(events.headers("channel.closed", pid=channel["pid"])) == {"pid"}

    seen.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
    seen.socket.close()
    closed = events.headers("connection.closed", pid=opened["pid"])
    assert set(closed) == {
        "timestamp_in_ms",
        "client_properties",
        "name",
        "node",
        "pid",
        "user_provided_name",
    }


def test_a_refused_login(connect: Connect, observe: Observe, new_name: NewName) -> None:
    events, user = observe("user.authentication.failure"), new_name()
    with pytest.raises(AssertionError):
        connect(user=user, password="wrong")
    refused = events.headers("user.authentication.failure", name=user)
    assert refused["connection_type"] == "network"
    # A list of numbers in RabbitMQ 3.10: what it shows of Erlang's texts.
    error = refused["error"]
    text = error if isinstance(error, str) else "".join(map(chr, error))
    assert re.search("invalid credentials|wrong password", text)


def test_users_and_their_permissions(
    administration: Administration, observe: Observe, new_name: NewName
) -> None:
    events, user = observe("#"), new_name()
    administration.add_user(user, "pässword")
    assert names(events.headers("user.created", name=user)) == {"name"}
    administration.set_permissions(user, "/", "a", "b", "c")
    given = events.headers("permission.created", user=user)
    rights = {"configure": "a", "write": "b", "read": "c"}
    assert {name: given[name] for name in names(given)} == {"user": user, "vhost": "/", **rights}
    assert given["user_who_performed_action"] == "rmq-cli"
    administration.set_topic_permissions(user, "/", "amq.topic", "w", "r")
    topic = events.headers("topic.permission.created", user=user)
    assert names(topic) == {"user", "vhost", "exchange", "write", "read"}
    administration.clear_permissions(user, "/")
    assert names(events.headers("permission.deleted", user=user)) == {"user", "vhost"}
    administration.delete_user(user)
    assert names(events.headers("user.deleted", name=user)) == {"name"}


def test_virtual_hosts_and_limits(
    administration: Administration, observe: Observe, new_name: NewName
) -> None:
    events, vhost = observe("#"), new_name()
    administration.add_vhost(vhost)
    created = events.headers("vhost.created", name=vhost)
    assert names(created) == {
        "name",
        "description",
        "tags",
        "default_queue_type",
        "metadata",
        "tracing",
        "cluster_state",
    }
    assert (created["default_queue_type"], created["tracing"]) == ("undefined", False)
    administration.set_vhost_limits(vhost, {"max-queues": 7})
    limit = events.headers("parameter.set", component="vhost-limits")
    assert (limit["vhost"], limit["name"], limit["value"]) == (vhost, "limits", {"max-queues": 7})
    assert events.headers("vhost.limits.set", name="limits")["max-queues"] == 7
    administration.delete_vhost(vhost)
    assert names(events.headers("vhost.deleted", name=vhost)) == {"name"}
