"""Messages that are routed one by one enter a queue as one run when they take the same way."""

from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic
from pamqp.commands import Queue as QueueMethods

from amqp_server.base import time_slice
from amqp_server.broker.counters.owners import CountedExchange
from amqp_server.broker.queue import Queue
from tests.amqp_client import AmqpClient, connect
from tests.cutting import connection_of, together
from tests.stopwatch import Stopwatch
from tests.threaded_server import ThreadedServer

QUEUES = ("red", "blue")


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the queue and the number of messages of each run that a queue took in."""
    runs: list[tuple[str, int]] = []
    publish = Queue.publish

    def noted(
        self: Queue, messages: list[bytes], flags: int, exchange: CountedExchange | None = None
    ) -> int:
        runs.append((self.name, len(messages)))
        return publish(self, messages, flags, exchange)

    monkeypatch.setattr(Queue, "publish", noted)
    return runs


def publish_all(client: AmqpClient, exchange: str, all_headers: list[dict[str, Any]]) -> None:
    """Publish one message for each table of headers, in one write, and wait for the confirms."""
    method = Basic.Publish(exchange=exchange, routing_key="copied")
    octets = [
        client.publish_octets(method, b"body", Basic.Properties(headers=headers))
        for headers in all_headers
    ]
    client.published[1] += len(octets)
    client.send_raw(b"".join(octets))
    client.expect_confirmed()


def test_messages_of_a_headers_exchange_go_in_runs(
    tmp_path: Path, published: list[tuple[str, int]]
) -> None:
    with (
        ThreadedServer(tmp_path, stopwatch=Stopwatch()) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        for queue in QUEUES:
            client.declare(queue)
            bind = QueueMethods.Bind(queue=queue, exchange="amq.headers", arguments={"to": queue})
            client.call(bind, QueueMethods.BindOk)
        ways = [*["red"] * 40, *["gone"] * 10, *["blue"] * 40, *["red"] * 40]
        publish_all(client, "amq.headers", [{"to": to} for to in ways])

        assert [client.ready_count(queue) for queue in QUEUES] == [80, 40]
    assert sum(count for _, count in published) == 120
    assert len(published) < 12, "each message went alone"


def test_copies_go_in_runs_and_in_their_order(
    tmp_path: Path, published: list[tuple[str, int]]
) -> None:
    with (
        ThreadedServer(tmp_path, stopwatch=Stopwatch()) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        for queue in QUEUES:
            client.declare(queue)
        publish_all(client, "", [{"CC": list(QUEUES)}] * 100)

        assert [client.ready_count(queue) for queue in QUEUES] == [100, 100]
    assert len(published) < 10, "each message went alone"


def test_neighbours_that_are_returned_or_routed_singly_go_in_in_their_order(
    tmp_path: Path, published: list[tuple[str, int]]
) -> None:
    publishes: list[tuple[Basic.Publish, dict[str, Any]]] = [
        (Basic.Publish(routing_key="red"), {}),
        (Basic.Publish(routing_key="nowhere", mandatory=True), {}),
        (Basic.Publish(routing_key="blue", mandatory=True), {}),
        (Basic.Publish(exchange="amq.headers", mandatory=True), {"to": "red"}),
        (Basic.Publish(routing_key="nowhere"), {}),
        (Basic.Publish(exchange="amq.headers", mandatory=True), {"to": "gone"}),
        (Basic.Publish(routing_key="red", mandatory=True), {}),
    ]
    with (
        ThreadedServer(tmp_path, stopwatch=Stopwatch()) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        for queue in QUEUES:
            client.declare(queue)
            bind = QueueMethods.Bind(queue=queue, exchange="amq.headers", arguments={"to": queue})
            client.call(bind, QueueMethods.BindOk)
        together(
            server,
            (
                client,
                b"".join(
                    client.publish_octets(method, b"%d" % at, Basic.Properties(headers=headers))
                    for at, (method, headers) in enumerate(publishes)
                ),
            ),
        )

        returned, confirmed = [], 0
        while confirmed < len(publishes):
            # If a turn was too short for all of them, the first ones are confirmed before.
            _, value = client.receive()
            if isinstance(value, Basic.Return):
                returned.append(client.message_of(value, 1).body)
            else:
                assert isinstance(value, Basic.Ack)
                confirmed = value.delivery_tag
        assert returned == [b"1", b"5"]
        taken = {queue: drained(client, queue) for queue in QUEUES}
        session = connection_of(server, client)._session
        assert session is not None
        channel = session.channels[1]
        counted = [
            (pair.publish, pair.return_unroutable, pair.drop_unroutable, pair.confirm)
            for pair in server.call(lambda: list(channel.counters.publish_pairs.values()))
        ]
    assert taken == {"red": [b"0", b"3", b"6"], "blue": [b"2"]}
    assert sorted(published) == [("blue", 1), *[("red", 1)] * 3]
    assert counted == [(5, 1, 1, 5), (2, 1, 0, 2)]


def drained(client: AmqpClient, queue: str) -> list[bytes]:
    bodies = []
    while (message := client.get(queue)) is not None:
        bodies.append(message.body)
    return bodies


def test_each_copied_message_goes_in_before_the_next_slice(
    tmp_path: Path, published: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        for queue in QUEUES:
            client.declare(queue)
        publish_all(client, "", [{"CC": list(QUEUES)}] * 20)

        assert [client.ready_count(queue) for queue in QUEUES] == [20, 20]
    assert len(published) == 40
