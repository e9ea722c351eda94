"""The firehose: messages about what is published and delivered, while an operator wants them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from pamqp.commands import Basic, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient
from tests.conformance.administration import Administration
from tests.conformance.conftest import Connect
from tests.conformance.marks import differs, ours_only
from tests.conformance.polling import eventually
from tests.conformance.queues import take
from tests.conformance.typed_fields import Typed, get_typed_headers

TRACE: Final = "amq.rabbitmq.trace"
TRACES: Final = "traces"
WORK: Final = "work"
OTHERS: Final = ("second", "hidden", "narrow", "dead", "short", "collected")
"""Queues that some of the tests declare."""


@pytest.fixture(scope="module")
def vhost(administration: Administration) -> Iterator[str]:
    """Give a new virtual host that is traced."""
    name = f"traced-{uuid4().hex[:8]}"
    administration.add_vhost(name)
    administration.trace(name, is_on=True)
    yield name
    administration.trace(name, is_on=False)
    administration.delete_vhost(name)


@pytest.fixture
def client(connect: Connect, vhost: str) -> Iterator[AmqpClient]:
    """Open a connection whose publishes are confirmed, with new queues `traces` and `work`."""
    client = connect(vhost=vhost, confirms=True)
    client.declare(TRACES)
    client.declare(WORK)
    client.call(Queue.Bind(queue=TRACES, exchange=TRACE, routing_key="#"), Queue.BindOk)
    yield client
    cleaner = connect(vhost=vhost)
    for queue in (TRACES, WORK, *OTHERS):
        cleaner.call(Queue.Delete(queue=queue), Queue.DeleteOk)


def publish(client: AmqpClient, key: str, exchange: str = "", **properties: Any) -> None:  # noqa: ANN401
    client.publish(b"body", key, exchange, properties=Basic.Properties(**properties))
    client.expect_confirmed()


def traces(client: AmqpClient, count: int) -> list[tuple[str, Any, bytes]]:
    """Return key, headers and body of what has been traced, when that much is there."""
    assert eventually(lambda: client.ready_count(TRACES) >= count)
    found = []
    while (message := client.get(TRACES)) is not None:
        assert isinstance(message.method, Basic.GetOk)
        assert message.method.exchange == TRACE
        found.append(
            (str(message.method.routing_key), message.properties.headers or {}, message.body)
        )
    assert len(found) == count, found
    return found


def test_a_publish_is_told_with_who_published_it_and_where_it_goes(
    client: AmqpClient, vhost: str
) -> None:
    publish(client, WORK)
    ((key, headers, body),) = traces(client, 1)
    assert (key, body) == ("publish.", b"body")
    assert list(headers) == [
        *("exchange_name", "routing_keys", "properties", "node"),
        *("vhost", "connection", "channel", "user", "routed_queues"),
    ]
    assert (headers["exchange_name"], headers["routing_keys"]) == ("", [WORK])
    assert (headers["vhost"], headers["user"], headers["channel"]) == (vhost, "guest", 1)
    assert headers["routed_queues"] == [WORK]
    assert "@" in headers["node"]
    own = client.socket.getsockname()[1]
    assert f":{own} -> " in headers["connection"]


def test_a_delivery_is_told_with_who_gets_it_and_whether_it_comes_again(
    client: AmqpClient, connect: Connect, vhost: str
) -> None:
    publish(client, WORK)
    traces(client, 1)
    consumer = connect(vhost=vhost)
    consumer.consume(WORK)
    first = consumer.expect_delivery()
    consumer.send(Basic.Nack(first.tag, multiple=False, requeue=True))
    consumer.expect_delivery()
    found = traces(client, 2)
    assert [(key, body) for key, _, body in found] == [("deliver.work", b"body")] * 2
    assert [headers["redelivered"] for _, headers, _ in found] == [0, 1]
    _, headers, _ = found[0]
    assert list(headers) == [
        *("exchange_name", "routing_keys", "properties", "node"),
        *("redelivered", "vhost", "connection", "channel", "user"),
    ]
    assert (headers["exchange_name"], headers["routing_keys"]) == ("", [WORK])
    own = consumer.socket.getsockname()[1]
    assert f":{own} -> " in headers["connection"]


def test_a_message_that_is_got_is_told_as_a_delivery(client: AmqpClient) -> None:
    publish(client, WORK)
    assert client.get(WORK) is not None
    assert [key for key, _, _ in traces(client, 2)] == ["publish.", "deliver.work"]


def test_the_types_of_the_headers_are_those_of_rabbitmq(client: AmqpClient) -> None:
    properties: Any = {
        "content_type": "text/plain",
        "headers": {"n": 7, "t": "x"},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "message_id": "m",
        "message_type": "t",
        "app_id": "a",
    }
    publish(client, WORK, **properties)
    assert client.get(WORK) is not None
    assert eventually(lambda: client.ready_count(TRACES) == 2)
    published, delivered = (get_typed_headers(client, TRACES) for _ in range(2))
    assert {name: field.kind for name, field in published.items()} == {
        "exchange_name": "S",
        "routing_keys": "A",
        "properties": "F",
        "node": "S",
        "vhost": "S",
        "connection": "S",
        "channel": "I",
        "user": "S",
        "routed_queues": "A",
    }
    assert delivered["redelivered"] == Typed("I", 0)
    fields = published["properties"].value
    assert fields == delivered["properties"].value
    assert {name: field.kind for name, field in fields.items()} == {
        "content_type": "S",
        "headers": "F",
        "delivery_mode": "I",
        "priority": "I",
        "correlation_id": "S",
        "message_id": "S",
        "type": "S",
        "app_id": "S",
    }
    assert (fields["delivery_mode"].value, fields["priority"].value) == (2, 3)
    assert set(fields["headers"].value) == {"n", "t"}


def test_a_message_without_a_queue_is_told_too(client: AmqpClient) -> None:
    publish(client, "nowhere", "amq.topic")
    ((key, headers, _),) = traces(client, 1)
    assert (key, headers["routed_queues"]) == ("publish.amq.topic", [])


def test_a_message_to_several_queues_is_told_once(client: AmqpClient) -> None:
    client.declare("second")
    for queue in (WORK, "second"):
        client.call(Queue.Bind(queue=queue, exchange="amq.fanout"), Queue.BindOk)
    publish(client, "k", "amq.fanout")
    ((key, headers, _),) = traces(client, 1)
    assert key == "publish.amq.fanout"
    assert sorted(headers["routed_queues"]) == ["second", WORK]


def test_keys_in_cc_are_routing_keys(client: AmqpClient) -> None:
    publish(client, WORK, headers={"CC": ["other"]})
    ((_, headers, _),) = traces(client, 1)
    assert headers["routing_keys"] == [WORK, "other"]


@differs(rabbitmq="routing_keys names the keys in BCC", reason="they are blind: nobody else sees")
def test_keys_in_bcc_are_not_told(client: AmqpClient) -> None:
    client.declare("hidden")
    publish(client, WORK, headers={"BCC": ["hidden"]})
    ((_, headers, _),) = traces(client, 1)
    assert headers["routing_keys"] == [WORK]


def test_traces_are_not_traced(client: AmqpClient, connect: Connect, vhost: str) -> None:
    consumer = connect(vhost=vhost)
    consumer.consume(TRACES, no_ack=True)
    publish(client, WORK)
    message = consumer.expect_delivery()
    assert isinstance(message.method, Basic.Deliver)
    assert message.method.routing_key == "publish."
    publish(client, "none", "amq.direct")
    message = consumer.expect_delivery()
    assert isinstance(message.method, Basic.Deliver)
    assert message.method.routing_key == "publish.amq.direct"


def test_a_binding_chooses_what_is_told(client: AmqpClient) -> None:
    client.call(Queue.Unbind(queue=TRACES, exchange=TRACE, routing_key="#"), Queue.UnbindOk)
    bind = Queue.Bind(queue=TRACES, exchange=TRACE, routing_key="deliver.work")
    client.call(bind, Queue.BindOk)
    publish(client, WORK)
    assert client.get(WORK) is not None
    assert [key for key, _, _ in traces(client, 1)] == ["deliver.work"]


def test_nothing_is_told_before_it_is_turned_on_and_after_it_is_turned_off(
    client: AmqpClient, administration: Administration, vhost: str
) -> None:
    administration.trace(vhost, is_on=False)
    publish(client, WORK, message_id="1")
    assert client.get(WORK) is not None
    administration.trace(vhost, is_on=True)
    publish(client, WORK, message_id="2")
    administration.trace(vhost, is_on=False)
    assert client.get(WORK) is not None
    publish(client, WORK, message_id="3")
    found = traces(client, 1)
    administration.trace(vhost, is_on=True)
    assert [headers["properties"]["message_id"] for _, headers, _ in found] == ["2"]


def test_other_virtual_hosts_are_not_traced(client: AmqpClient, connect: Connect) -> None:
    other = connect(confirms=True)
    declare = Queue.Declare(exclusive=True)
    queue = str(other.call(declare, Queue.DeclareOk).queue)
    bind = Queue.Bind(queue=queue, exchange=TRACE, routing_key="#")
    other.call(bind, Queue.BindOk)
    publish(other, "nobody", "amq.topic")
    publish(client, WORK)
    traces(client, 1)
    assert other.ready_count(queue) == 0


def test_a_publish_of_a_transaction_is_told_before_the_commit(
    client: AmqpClient, connect: Connect, vhost: str
) -> None:
    publisher = connect(vhost=vhost)
    publisher.call(Tx.Select(), Tx.SelectOk)
    publisher.publish(b"body", WORK)
    assert [key for key, _, _ in traces(client, 1)] == ["publish."]
    publisher.call(Tx.Rollback(), Tx.RollbackOk)
    assert client.ready_count(WORK) == 0
    assert client.ready_count(TRACES) == 0


@differs(
    rabbitmq="its reply key is among the queues",
    reason="no queue gets a direct reply",
    since=4,
)
def test_a_direct_reply_goes_to_no_queue(client: AmqpClient, connect: Connect, vhost: str) -> None:
    asking = connect(vhost=vhost)
    asking.call(Basic.Consume(queue="amq.rabbitmq.reply-to", no_ack=True), Basic.ConsumeOk)
    asking.publish(b"ask", WORK, properties=Basic.Properties(reply_to="amq.rabbitmq.reply-to"))
    request = take(client, WORK)
    publish(client, str(request.properties.reply_to))
    assert asking.expect_delivery().body == b"body"
    told = {
        body: headers["routed_queues"]
        for key, headers, body in traces(client, 3)
        if key == "publish."
    }
    assert told[b"body"] == []
    assert told[b"ask"] == [WORK]


def test_many_publishes_of_each_form_are_told_in_order(client: AmqpClient) -> None:
    client.declare("second")
    expected = []
    for number in range(300):
        # Runs of one frame, batches of several, and messages that are routed one by one.
        key = WORK if number % 3 else "second"
        headers: Any = {"CC": []} if number % 7 == 0 else {}
        properties = Basic.Properties(headers=headers)
        client.publish(b"%d" % number, key, properties=properties)
        expected.append((b"%d" % number, [key]))
    client.expect_confirmed()
    found = traces(client, 300)
    assert [(body, headers["routed_queues"]) for _, headers, body in found] == expected


@pytest.mark.parametrize("size", [0, 4096, 131_072, 600_000, 3_000_000])
def test_the_body_is_that_of_the_message(client: AmqpClient, size: int) -> None:
    body = bytes(range(256)) * (size // 256)
    client.publish(body, WORK)
    client.expect_confirmed()
    assert client.get(WORK) is not None
    assert [found for _, _, found in traces(client, 2)] == [body, body]


def test_clients_cannot_publish_there_themselves(client: AmqpClient) -> None:
    client.publish(b"", "publish.x", TRACE)
    text = f"cannot publish to internal exchange '{TRACE}' in vhost '{client.vhost}'"
    assert text in client.expect_channel_close(403).reply_text


def test_a_queue_that_is_full_refuses_traces_and_nothing_else(client: AmqpClient) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.declare("narrow", arguments=arguments)
    bind = Queue.Bind(queue="narrow", exchange=TRACE, routing_key="publish.#")
    client.call(bind, Queue.BindOk)
    for _ in range(3):
        publish(client, WORK)
    assert client.ready_count(WORK) == 3
    assert client.ready_count("narrow") == 1
    traces(client, 3)


@ours_only("RabbitMQ traces such a message anew, with the headers of all before in its own")
def test_a_trace_that_became_a_dead_letter_is_not_traced(client: AmqpClient) -> None:
    client.declare("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("short", arguments={**arguments, "x-message-ttl": 0})
    bind = Queue.Bind(queue="short", exchange=TRACE, routing_key="publish.#")
    client.call(bind, Queue.BindOk)
    publish(client, WORK)
    assert eventually(lambda: client.ready_count("dead") == 1)
    assert client.get("dead") is not None
    traces(client, 1)


def test_an_exchange_may_stand_behind_it(client: AmqpClient) -> None:
    declare = Exchange.Declare(exchange="behind", exchange_type="fanout")
    client.call(declare, Exchange.DeclareOk)
    client.call(
        Exchange.Bind(destination="behind", source=TRACE, routing_key="deliver.#"),
        Exchange.BindOk,
    )
    client.declare("collected")
    client.call(Queue.Bind(queue="collected", exchange="behind"), Queue.BindOk)
    publish(client, WORK)
    assert client.get(WORK) is not None
    assert eventually(lambda: client.ready_count("collected") == 1)
