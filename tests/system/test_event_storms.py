"""Events in great number: bounded, counted, and never in the way of what they tell of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.broker.events import events as module
from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.threaded_server import ThreadedServer

EVENTS = "amq.rabbitmq.event"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path / "data") as threaded:
        yield threaded


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[AmqpClient]:
    with connect(server.address) as connected:
        connected.open_channel()
        yield connected


def bind(client: AmqpClient, queue: str, key: str, **options: object) -> None:
    client.call(Queue.Declare(queue=queue, **options), Queue.DeclareOk)  # type: ignore[arg-type]
    client.call(Queue.Bind(queue=queue, exchange=EVENTS, routing_key=key), Queue.BindOk)


def storm(server: ThreadedServer, count: int, name: str = "test.storm") -> None:
    """Let so many events happen in one turn of the loop."""
    events = server.server.broker.events

    def happen() -> None:
        for number in range(count):
            events.report(name, object_name=str(number), attributes=lambda: {"number": 1})

    server.call(happen)


def names(client: AmqpClient, queue: str, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        message = client.get(queue)
        if message is not None:
            headers = message.properties.headers or {}
            found.append(str(headers["name"]))
    return found


def events_of(client: AmqpClient, queue: str) -> tuple[str, dict[str, object]]:
    """Return routing key and headers of the next event in a queue."""
    while True:
        message = client.get(queue)
        if message is not None:
            headers: dict[str, object] = {**(message.properties.headers or {})}
            del headers["timestamp_in_ms"]
            assert headers.pop("user_who_performed_action") == "rmq-cli"
            assert isinstance(message.method, Basic.GetOk)
            return str(message.method.routing_key), headers


def test_nothing_is_made_while_nobody_listens(server: ThreadedServer) -> None:
    events = server.server.broker.events

    def happen() -> None:
        def attributes() -> dict[str, object]:
            raise AssertionError("nobody asked")

        events.report("test.storm", attributes=attributes)

    assert not events.is_followed
    server.call(happen)


def test_too_many_are_dropped_and_counted(
    server: ThreadedServer,
    client: AmqpClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bind(client, "watch", "test.storm")
    monkeypatch.setattr(module, "WAITING_MAX", 100)
    storm(server, 250)
    assert server.server.broker.events.dropped == 150
    assert names(client, "watch", 100) == [str(number) for number in range(100)]
    assert client.get("watch") is None
    assert [each.getMessage() for each in caplog.records if "dropped" in each.getMessage()] == [
        "events dropped count=1 waiting=100"
    ]
    storm(server, 1)
    assert names(client, "watch", 1) == ["0"]


def test_what_waits_is_bounded_in_bytes_too(
    server: ThreadedServer, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind(client, "watch", "#")
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 1000)
    storm(server, 100)
    assert 0 < 100 - server.server.broker.events.dropped < 20


def test_a_storm_comes_whole_and_others_are_served(
    server: ThreadedServer, client: AmqpClient
) -> None:
    bind(client, "watch", "test.storm")
    client.declare("work")
    storm(server, 5000)
    client.publish(b"x", "work")
    message = client.get("work")
    while message is None:
        message = client.get("work")
    assert names(client, "watch", 5000) == [str(number) for number in range(5000)]
    assert server.server.broker.events.dropped == 0


def test_a_queue_that_is_full_or_gone_holds_nothing_up(
    server: ThreadedServer, client: AmqpClient
) -> None:
    full = {"x-max-length": 2, "x-overflow": "reject-publish"}
    bind(client, "full", "#", arguments=full)
    bind(client, "gone", "#")
    bind(client, "watch", "test.storm")
    storm(server, 50)
    client.call(Queue.Delete(queue="gone"), Queue.DeleteOk)
    assert len(names(client, "watch", 50)) == 50
    assert client.ready_count("full") == 2


def test_names_that_would_break_a_line_are_told_as_they_are(
    server: ThreadedServer, client: AmqpClient
) -> None:
    bind(client, "watch", "vhost.created")
    name = 'a"\\\n\x00<script>\u2028é'
    path = server.server.config.storage_path
    ask(path, "vhosts.add", name=name)
    assert names(client, "watch", 1) == [name]


def test_events_bound_to_another_exchange_are_routed_on(
    server: ThreadedServer, client: AmqpClient
) -> None:
    client.call(Exchange.Declare(exchange="on", exchange_type="fanout"), Exchange.DeclareOk)
    bound = Exchange.Bind(destination="on", source=EVENTS, routing_key="test.*")
    client.call(bound, Exchange.BindOk)
    client.call(Queue.Declare(queue="behind"), Queue.DeclareOk)
    client.call(Queue.Bind(queue="behind", exchange="on"), Queue.BindOk)
    storm(server, 1)
    assert names(client, "behind", 1) == ["0"]


def test_policies_limits_and_parameters_are_told_as_rabbitmq_does(
    server: ThreadedServer, client: AmqpClient
) -> None:
    bind(client, "watch", "#")
    # The binding itself.
    while client.get("watch") is None:
        pass
    path = server.server.config.storage_path
    policy = {"vhost": "/", "name": "p"}
    definition = {"pattern": "^a", "apply_to": "queues", "priority": 2}
    for kind in ("policies", "operator_policies"):
        given = {**policy, **definition, "definition": {"max-length": 5}}
        ask(path, f"{kind}.set", **given)
        ask(path, f"{kind}.clear", **policy)
    ask(path, "global_parameters.set", name="g", value={"value": "secret"})
    ask(path, "limits.set", kind="user", name="guest", limits={"max-channels": 9}, replace=True)
    told = [events_of(client, "watch") for _ in range(8)]
    shown = {"pattern": "^a", "apply-to": "queues", "priority": 2, "definition": {"max-length": 5}}
    place = {"vhost": "/", "name": "p"}
    assert told == [
        ("policy.set", {**place, **shown}),
        ("policy.cleared", place),
        ("parameter.set", {**place, "component": "operator_policy", "value": shown}),
        ("policy.set", {**place, **shown}),
        ("parameter.cleared", {**place, "component": "operator_policy"}),
        ("operator.policy.cleared", place),
        ("parameter.set", {"component": "global", "name": "g"}),
        ("user.limits.set", {"name": "limits", "username": "guest", "max-channels": 9}),
    ]


def test_a_durable_queue_is_still_bound_after_a_kill(start_server: StartServer) -> None:
    running = start_server()
    with connect(running.address) as client:
        client.open_channel()
        bind(client, "kept", "vhost.created", durable=True)
    running.kill()
    running.start()
    ask(running.storage_path, "vhosts.add", name="v")
    with connect(running.address) as client:
        client.open_channel()
        assert names(client, "kept", 1) == ["v"]


def test_a_consumer_of_events_may_cause_events(server: ThreadedServer, client: AmqpClient) -> None:
    """Acknowledgements and deliveries are no events: nothing goes round in a circle."""
    bind(client, "watch", "#")
    client.consume("watch", prefetch=10)
    kinds: list[str] = []
    while "consumer.created" not in kinds:
        message = client.expect_delivery()
        assert isinstance(message.method, Basic.Deliver)
        kinds.append(str(message.method.routing_key))
        client.send(Basic.Ack(message.tag))
    assert client.ready_count("watch") == 0
    assert server.server.broker.events.dropped == 0
