"""Other events happen while the broker searches a log for the offset of a new consumer."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.broker.queue import Queue as BrokerQueue
from appendlog import Log, LogFailedError
from tests.amqp_client import AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

AGE = {"x-stream-offset": "1h"}
KINDS = pytest.mark.parametrize(
    ("stream", "arguments"), [(True, AGE), (False, {**AGE, "x-browse": True})]
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path) as running:
        yield running


class Search:
    """Holds up the looking for places in time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.is_begun, self.may_end = threading.Event(), threading.Event()
        find = Log.first_offset_at

        def held(log: Log, timestamp_ns: int) -> int:
            self.is_begun.set()
            assert self.may_end.wait(HANG_SECONDS)
            if error is not None:
                raise error
            return find(log, timestamp_ns)

        monkeypatch.setattr(Log, "first_offset_at", held)


def queue_of(server: ThreadedServer) -> BrokerQueue:
    return server.server.broker.vhosts["/"].queues["q"]


def search(client: AmqpClient, *, stream: bool, arguments: dict[str, Any]) -> None:
    client.open_channel(confirms=True)
    client.declare("q", arguments={"x-queue-type": "stream"} if stream else None)
    client.publish(b"1", "q")
    client.expect_confirmed()
    client.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
    client.send(Basic.Consume(queue="q", arguments=arguments))


@KINDS
def test_a_client_that_leaves_during_the_search_leaves_no_consumer(
    server: ThreadedServer,
    monkeypatch: pytest.MonkeyPatch,
    stream: bool,
    arguments: dict[str, Any],
) -> None:
    held = Search(monkeypatch)
    client = connect(server.address)
    search(client, stream=stream, arguments=arguments)
    assert held.is_begun.wait(HANG_SECONDS)
    client.socket.close()
    server.wait_until(lambda: not server.server.connections)
    held.may_end.set()
    with connect(server.address) as other:
        other.open_channel()
        other.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
        other.call(Basic.Consume(queue="q", arguments=arguments), Basic.ConsumeOk)
        assert other.expect_delivery().body == b"1"
        assert len(queue_of(server).subscriptions) == 1


@KINDS
def test_a_queue_that_is_deleted_during_the_search_is_not_found(
    server: ThreadedServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stream: bool,
    arguments: dict[str, Any],
) -> None:
    held = Search(monkeypatch, LogFailedError(tmp_path, OSError("gone")))
    with connect(server.address) as client, connect(server.address) as other:
        search(client, stream=stream, arguments=arguments)
        assert held.is_begun.wait(HANG_SECONDS)
        other.open_channel()
        other.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        held.may_end.set()
        assert "no queue 'q'" in client.expect_channel_close(404).reply_text
