"""The queue type of a virtual host is that of its queues that are declared without one."""

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Channel, Queue

from amqp_server.control.client import ask, follow
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer


@pytest.fixture
def server(start_server: StartServer) -> RunningServer:
    return start_server()


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as client:
        client.open_channel()
        yield client


def set_default(server: RunningServer, kind: str) -> None:
    ask(server.storage_path, "vhosts.set", name="/", default_queue_type=kind)


def type_of(server: RunningServer, queue: str) -> str:
    exported: dict[str, str] = {}

    def take(report: dict[str, Any]) -> None:
        if report.get("section") == "queues":
            exported.update({each["name"]: each["type"] for each in report["entries"]})

    follow(server.storage_path, "definitions.export", {"vhost": "/"}, take)
    return exported[queue]


@pytest.mark.parametrize("kind", ["quorum", "stream", "classic", "", "undefined", "of-a-plugin"])
def test_a_queue_without_a_type_gets_that_of_its_virtual_host(
    server: RunningServer, client: AmqpClient, kind: str
) -> None:
    set_default(server, kind)
    client.declare("orders")
    assert type_of(server, "orders") == (kind if kind in ("quorum", "stream") else "classic")
    # Declared again it is the same one, also by who names the type.
    client.declare("orders")
    if kind in ("quorum", "stream"):
        client.declare("orders", arguments={"x-queue-type": kind})


def test_a_type_that_is_asked_for_wins(server: RunningServer, client: AmqpClient) -> None:
    set_default(server, "quorum")
    client.declare("orders", arguments={"x-queue-type": "classic"})
    assert type_of(server, "orders") == "classic"


def test_a_queue_that_could_not_be_of_the_type_is_a_classic_one(
    server: RunningServer, client: AmqpClient
) -> None:
    set_default(server, "quorum")
    client.declare("transient", durable=False)
    client.declare("auto-delete", auto_delete=True)
    client.declare("mine", exclusive=True)
    name = client.call(Queue.Declare(queue="", exclusive=True), Queue.DeclareOk).queue
    assert name is not None
    assert name.startswith("amq.gen-")
    for queue in ("transient", "auto-delete"):
        assert type_of(server, queue) == "classic"


def test_the_server_names_no_queue_of_such_a_type(
    server: RunningServer, client: AmqpClient
) -> None:
    set_default(server, "stream")
    client.send(Queue.Declare(queue="", durable=True))
    closed = client.expect(Channel.Close)
    assert closed.reply_text == (
        "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_stream_queue"
    )


def test_the_type_of_another_virtual_host_counts_there_only(
    server: RunningServer, client: AmqpClient
) -> None:
    ask(server.storage_path, "vhosts.add", name="other")
    ask(server.storage_path, "vhosts.set", name="other", default_queue_type="quorum")
    client.declare("orders")
    assert type_of(server, "orders") == "classic"
