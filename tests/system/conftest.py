"""Fixtures: one server for all tests of a file, and a client that checks that it is undisturbed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer
from tests.system.watched import LIMITS, SetSensor, Watched
from tests.threaded_server import ThreadedServer

WITNESS_QUEUE = "witness"


@pytest.fixture(scope="module", params=["compiled", "interpreted"])
def shared_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """Start a server that all tests of the file share; it must not log an error."""
    storage_path = tmp_path_factory.mktemp("shared") / "data"
    with RunningServer(storage_path, interpreted=request.param == "interpreted") as server:
        yield server.start()
        assert server.is_running, "".join(server.messages)
    assert not server.faults, "".join(server.messages)


@pytest.fixture
def witness(shared_server: RunningServer) -> Iterator[AmqpClient]:
    """Keep a connection open during the test; it must work afterwards."""
    with connect(shared_server.address) as client:
        client.open_channel(confirms=True)
        client.declare(WITNESS_QUEUE)
        yield client
        publish_and_get(client)
        client.close()


def publish_and_get(client: AmqpClient) -> None:
    """Publish one message to the queue of the witness and take it."""
    client.publish(b"still here", WITNESS_QUEUE)
    client.expect(Basic.Ack)
    message = client.get(WITNESS_QUEUE)
    assert message is not None
    assert message.body == b"still here"


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """Start a server whose free memory and disk space the test sets."""
    sensor = SetSensor()
    with ThreadedServer(tmp_path / "data", limits=LIMITS, sensor=sensor) as server:
        yield Watched(server, sensor)
