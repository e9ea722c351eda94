"""Clients of RabbitMQ's management API from PyPI, unmodified: AMQPStorm's and pyrabbit2."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pika
import pyrabbit2
import pytest
from amqpstorm.management.api import ManagementApi
from amqpstorm.management.exception import ApiError
from pyrabbit2.http import HTTPError

from tests.management.tools.api import Api
from tests.management.tools.walk import wait_until_none

FULL = (".*", ".*", ".*")


@pytest.fixture
def connection_name(api: Api) -> Iterator[str]:
    """Keep a client that consumes; give the name of its connection when it shows."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(api.host, api.amqp_port))
    channel = connection.channel()
    channel.queue_declare("consumed", durable=True)
    channel.basic_consume("consumed", lambda *_: None)
    wait_until_none(lambda: [] if api.get("/channels") and api.get("/connections") else ["it"])
    yield api.get("/connections")[0]["name"]
    # A test may have closed it.
    with suppress(pika.exceptions.AMQPError):
        connection.close()


def test_amqpstorm(api: Api, connection_name: str) -> None:
    client: Any = ManagementApi(f"http://{api.host}:{api.port}", "guest", "guest")

    assert client.whoami()["name"] == "guest"
    assert client.aliveness_test() == {"status": "ok"}
    assert client.healthchecks.get() == {"status": "ok"}
    node = client.overview()["node"]
    assert client.healthchecks.get(node) == {"status": "ok"}
    assert client.node(node)["running"] is True
    assert [each["name"] for each in client.nodes()] == [node]
    assert client.cluster_name()["name"]

    client.virtual_host.create("storm")
    assert client.virtual_host.get("storm")["name"] == "storm"
    assert {each["name"] for each in client.virtual_host.list()} >= {"/", "storm"}
    client.user.create("anna", "secret", tags="management")
    client.user.set_permission("anna", "storm", *FULL)
    assert client.user.get("anna")["name"] == "anna"
    assert client.user.get_permission("anna", "storm")["configure"] == ".*"
    assert len(client.user.get_permissions("anna")) == 1
    assert {each["user"] for each in client.virtual_host.get_permissions("storm")} == {
        "anna",
        "guest",
    }

    client.exchange.declare("trade", "topic", virtual_host="storm", durable=True)
    client.exchange.declare("inner", "fanout", virtual_host="storm")
    client.exchange.bind("inner", "trade", "#", virtual_host="storm", arguments={})
    client.queue.declare(
        "orders", virtual_host="storm", durable=True, arguments={"x-max-length": 9}
    )
    client.queue.bind("orders", "trade", "order.#", virtual_host="storm", arguments={})
    assert client.queue.get("orders", "storm")["arguments"] == {"x-max-length": 9}
    assert client.exchange.get("trade", "storm")["type"] == "topic"
    assert len(client.exchange.bindings("trade", "storm")) == 2
    assert len(client.queue.bindings("orders", "storm")) == 2
    assert [each["name"] for each in client.queue.list("storm")] == ["orders"]
    assert {each["name"] for each in client.queue.list(show_all=True)} >= {"orders", "consumed"}
    assert len(client.queue.list("storm", name="^ord", use_regex=True, page_size=10)) == 1
    assert "trade" in {each["name"] for each in client.exchange.list(show_all=True)}

    sent = client.basic.publish(
        "hello", "order.new", "trade", virtual_host="storm", properties={"content_type": "text/a"}
    )
    assert sent == {"routed": True}
    (message,) = client.basic.get("orders", "storm", requeue=True)
    assert message.body == "hello"
    assert message.properties["content_type"] == "text/a"
    (taken,) = client.basic.get("orders", "storm", to_dict=True)
    assert taken["payload"] == "hello"
    assert client.basic.get("orders", "storm") == []
    client.queue.purge("orders", "storm")

    client.queue.unbind("orders", "trade", virtual_host="storm", properties_key="order.%23")
    client.exchange.unbind("inner", "trade", "%23", virtual_host="storm")
    assert len(client.queue.bindings("orders", "storm")) == 1
    client.queue.delete("orders", "storm")
    client.exchange.delete("trade", "storm")

    (channel,) = client.channel.list()
    assert client.channel.get(channel["name"])["number"] == 1
    (connection,) = client.connection.list()
    assert client.connection.get(connection["name"])["user"] == "guest"
    client.connection.close(connection["name"], reason="enough")
    wait_until_none(client.connection.list)

    client.user.delete_permission("anna", "storm")
    client.user.delete(["anna"])
    client.virtual_host.delete("storm")
    with pytest.raises(ApiError, match="NOT-FOUND"):
        client.queue.get("nosuch")
    with pytest.raises(ApiError, match="401"):
        ManagementApi(f"http://{api.host}:{api.port}", "guest", "wrong").whoami()


def test_pyrabbit2(api: Api, connection_name: str) -> None:
    client = pyrabbit2.Client(f"{api.host}:{api.port}", "guest", "guest")

    assert client.is_alive()
    assert client.get_whoami()["name"] == "guest"
    assert client.get_overview()["cluster_name"]
    assert client.get_cluster_name()["name"]
    assert len(client.get_nodes()) == 1
    assert isinstance(client.get_extensions(), list)

    client.create_vhost("rabbit")
    assert set(client.get_vhost_names()) >= {"/", "rabbit"}
    assert client.get_vhost("rabbit")["name"] == "rabbit"
    client.create_user("anna", "secret", tags="management")
    client.set_vhost_permissions("rabbit", "anna", *FULL)
    assert {each["name"] for each in client.get_users()} == {"anna", "guest"}
    assert client.get_permission("rabbit", "anna")["write"] == ".*"
    assert len(client.get_user_permissions("anna")) == 1
    assert len(client.get_vhost_permissions("rabbit")) == 2
    assert len(client.get_permissions()) == 3

    client.create_exchange("rabbit", "trade", "topic")
    client.create_queue("rabbit", "orders", durable=True)
    client.create_binding("rabbit", "trade", "orders", "order.new")
    assert client.get_exchange("rabbit", "trade")["type"] == "topic"
    assert "trade" in {each["name"] for each in client.get_exchanges("rabbit")}
    assert len(client.get_queue_bindings("rabbit", "orders")) == 2
    assert client.get_bindings()
    assert client.publish("rabbit", "trade", "order.new", "hello") is True
    assert client.publish("rabbit", "trade", "nowhere", "hello") is False
    wait_until_none(lambda: _missing(client, 1))
    assert client.get_queue_depth("rabbit", "orders") == 1
    assert [each["name"] for each in _items(client.get_queues("rabbit", "ord"))] == ["orders"]
    (message,) = client.get_messages("rabbit", "orders", requeue=True)
    assert message["payload"] == "hello"
    client.purge_queue("rabbit", "orders")

    client.create_policy("rabbit", "short", pattern="^x", definition={"max-length": 1})
    assert client.get_policy("rabbit", "short")["definition"] == {"max-length": 1}
    assert len(client.get_all_policies()) == 1
    client.delete_policy("rabbit", "short")
    assert client.get_all_shovels() == []
    names = {each["name"] for each in client.get_definitions()["queues"]}
    assert names >= {"orders", "consumed"}

    client.delete_binding("rabbit", "trade", "orders", "order.new")
    client.delete_queue("rabbit", "orders")
    client.delete_exchange("rabbit", "trade")
    (channel,) = client.get_channels()
    assert client.get_channel(channel["name"])["user"] == "guest"
    assert client.get_connection(connection_name)["name"] == connection_name
    client.delete_connection(connection_name)
    wait_until_none(client.get_connections)
    client.delete_permission("rabbit", "anna")
    client.delete_user("anna")
    client.delete_vhost("rabbit")
    with pytest.raises(HTTPError) as refused:
        client.get_queue("/", "nosuch")
    assert refused.value.status == 404


def _missing(client: Any, messages: int) -> list[str]:  # noqa: ANN401 - it has no types
    # RabbitMQ shows it late.
    depth = client.get_queue("rabbit", "orders").get("messages")
    return [] if depth == messages else [f"{depth} messages"]


def _items(found: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - it has no types
    """Return the items of a page, which pyrabbit2 gives as it came."""
    value = json.loads(found) if isinstance(found, str) else found
    return list(value["items"] if isinstance(value, dict) else value)
