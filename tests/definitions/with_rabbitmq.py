"""What RabbitMQ makes and takes is still what the tests expect of ours; `make check-tools`.

python -m tests.definitions.with_rabbitmq     writes it down again
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Exchange, Queue

from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.definitions.rabbitmq_node import RabbitNode, rabbit_node
from tests.definitions.test_rabbitmq_files import (
    CHANCE,
    MADE_BY_RABBITMQ,
    alike,
    but_for_gone_queues,
    exported,
    imported,
    made,
    write_unusual_files,
)


def made_by_rabbitmq(directory: Path) -> dict[str, Any]:
    """Import the files one after the other, and return what is there then."""
    (directory / "rabbitmq").mkdir()
    with rabbit_node(directory / "rabbitmq") as node:
        for number, (is_taken, path) in enumerate(write_unusual_files(directory).values()):
            node.ctl("add_vhost", f"v{number}")
            node.ctl("set_vhost_limits", "-p", f"v{number}", '{"max-queues": 2}')
            if is_taken:
                node.ctl("import_definitions", str(path))
            else:
                with pytest.raises(AssertionError, match=r"\S"):
                    node.ctl("import_definitions", str(path))
        return made(node.export(), CHANCE)


def test_rabbitmq_makes_of_unusual_files_what_is_expected_of_ours(tmp_path: Path) -> None:
    assert made_by_rabbitmq(tmp_path) == json.loads(MADE_BY_RABBITMQ.read_text())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RabbitNode]:
    """Run a RabbitMQ with definitions of every kind."""
    directory = tmp_path / "rabbitmq"
    directory.mkdir()
    with rabbit_node(directory) as node:
        yield node


def fill(node: RabbitNode) -> None:
    """Make definitions of every kind in RabbitMQ."""
    for line in (
        ["add_vhost", "shop", "--description", "orders", "--tags", "a,b"],
        ["add_user", "shop", "test12"],
        ["set_user_tags", "shop", "management", "own"],
        ["set_permissions", "-p", "shop", "shop", ".*", ".*", "^r"],
        ["set_topic_permissions", "-p", "shop", "shop", "amq.topic", "^a", "^b"],
        [*("set_policy", "-p", "shop", "--priority", "3"), "p", "^q", '{"max-length":5}'],
        ["set_operator_policy", "-p", "shop", "o", "^q", '{"expires":500000}'],
        ["set_vhost_limits", "-p", "shop", '{"max-queues": 50}'],
        ["set_user_limits", "shop", '{"max-connections": 5}'],
    ):
        node.ctl(*line)
    with connect((node.url.host, node.url.port)) as client:
        client.open_channel()
        client.declare("classic", durable=True, arguments={"x-max-length": 5, "x-max-priority": 3})
        client.declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
        client.declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        client.declare("mine", exclusive=True)
        alternate: Any = {"alternate-exchange": "amq.fanout"}
        declare = Exchange.Declare(exchange="t", exchange_type="topic", arguments=alternate)
        declare.durable = True
        client.call(declare, Exchange.DeclareOk)
        matched: Any = {"x-match": "all", "n": 5, "s": "text", "b": True, "f": 1.5}
        for bind in (
            Queue.Bind(queue="classic", exchange="t", routing_key="a.#"),
            Queue.Bind(queue="quorum", exchange="amq.headers", arguments=matched),
            Queue.Bind(queue="mine", exchange="amq.topic", routing_key="k"),
        ):
            client.call(bind, Queue.BindOk)
        bind_exchange = Exchange.Bind(destination="t", source="amq.direct", routing_key="e")
        client.call(bind_exchange, Exchange.BindOk)


def test_definitions_go_from_rabbitmq_to_us_and_back(
    node: RabbitNode,
    start_server: StartServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(node)
    first = node.export()
    path = tmp_path / "first.json"
    path.write_text(json.dumps(first))
    server = start_server()
    imported(server, path, capsys)
    with connect(server.address, user="shop", password="test12", vhost="shop"):
        pass
    back = exported(server, capsys, "--for", "rabbitmq")
    # Into a RabbitMQ that has nothing of it.
    for queue in ("classic", "quorum", "stream"):
        node.ctl("delete_queue", queue)
    node.ctl("delete_vhost", "shop")
    node.ctl("delete_user", "shop")
    node.load(back)
    second = node.export()
    assert alike(second) == but_for_gone_queues(alike(first))
    node.ctl("authenticate_user", "shop", "test12")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        found = made_by_rabbitmq(Path(name))
    MADE_BY_RABBITMQ.write_text(json.dumps(found, indent=2) + "\n")
