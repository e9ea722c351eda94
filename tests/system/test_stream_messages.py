"""What of other queues holds for streams as well, and what does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, connect
from tests.conformance.streams import offset_of
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

STREAM: dict[str, Any] = {"x-queue-type": "stream"}
TRANSIENT = Basic.Properties(delivery_mode=1)


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        yield client


def publish(client: AmqpClient, count: int) -> None:
    for number in range(count):
        client.publish(b"%d" % number, "s")
    client.expect_confirmed()


@pytest.mark.parametrize("durability", ["fsync", "write", "none"])
def test_what_is_not_on_the_disk_is_neither_confirmed_nor_shown(
    tmp_path: Path, durability: str
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    with (
        ThreadedServer(tmp_path, filesystem, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
        connect(server.address) as reader,
    ):
        client.open_channel(confirms=True)
        client.declare("s", arguments=STREAM | {"x-durability": durability})
        queue = server.server.broker.vhosts["/"].queues["s"]
        reader.open_channel()
        reader.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})
        filesystem.sync_gate.clear()
        client.publish(b"0", "s", properties=TRANSIENT)
        if durability == "fsync":
            assert filesystem.sync_waiting.wait(30)
            client.send(Channel.Flow(active=True))
            client.expect(Channel.FlowOk)
        else:
            client.expect_confirmed()
        assert reader.ready_count("s") == 0
        filesystem.sync_gate.set()
        if durability == "fsync":
            client.expect_confirmed()
        else:
            server.wait_until(lambda: queue.store.written_end == 1)
            server.run(server.server.checkpointer.write_now)
        message = reader.expect_delivery()
        assert (message.body, offset_of(message)) == (b"0", 0)
        server.wait_until(lambda: queue.store.recovery_point == 1)


@pytest.mark.parametrize("asked_of", ["queue", "consumer"])
def test_a_consumer_that_does_not_answer_in_time_loses_its_channel(
    client: AmqpClient, asked_of: str
) -> None:
    timeout = {"x-consumer-timeout": 100}
    client.declare("s", arguments=STREAM | (timeout if asked_of == "queue" else {}))
    publish(client, 1)
    client.open_channel(2)
    arguments = {"x-stream-offset": "first"} | (timeout if asked_of == "consumer" else {})
    client.consume("s", prefetch=10, arguments=arguments, channel=2)
    client.expect_delivery(2)
    assert "timed out" in client.expect_channel_close(406, 2).reply_text


def test_delayed_messages_may_go_into_a_stream(client: AmqpClient) -> None:
    client.declare("s", arguments=STREAM)
    arguments: Any = {"x-delayed-type": "direct"}
    kind = "x-delayed-message"
    declared = Exchange.Declare(0, "x", kind, False, True, False, False, False, arguments)
    client.call(declared, Exchange.DeclareOk)
    client.call(Queue.Bind(0, "s", "x", "key"), Queue.BindOk)
    for number, delay_ms in enumerate((150, 50)):
        properties = Basic.Properties(headers={"x-delay": delay_ms}, delivery_mode=1)
        client.publish(b"%d" % number, "key", "x", properties=properties)
    client.expect_confirmed()
    client.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})
    messages = [client.expect_delivery() for _ in range(2)]
    assert [(message.body, offset_of(message)) for message in messages] == [(b"1", 0), (b"0", 1)]


@pytest.mark.parametrize("method", [Basic.Ack(2, True), Basic.Nack(2, True), Basic.Reject(2)])
def test_an_answer_in_a_transaction_gives_credit_with_its_commit(
    client: AmqpClient, method: Frame
) -> None:
    client.declare("s", arguments=STREAM)
    publish(client, 4)
    client.open_channel(2)
    client.call(Tx.Select(), Tx.SelectOk, 2)
    client.consume("s", prefetch=2, arguments={"x-stream-offset": "first"}, channel=2)
    assert [client.expect_delivery(2).body for _ in range(2)] == [b"0", b"1"]
    client.send(method, 2)
    client.call(Tx.Rollback(), Tx.RollbackOk, 2)
    client.send(method, 2)
    client.call(Tx.Commit(), Tx.CommitOk, 2)
    assert client.expect_delivery(2).body == b"2"


def test_a_stream_is_deleted_under_its_consumers(client: AmqpClient) -> None:
    client.declare("s", arguments=STREAM)
    publish(client, 50)
    for channel in (2, 3):
        client.open_channel(channel)
        arguments = {"x-stream-offset": "first"}
        client.consume("s", prefetch=3, arguments=arguments, channel=channel)
        for _ in range(3):
            client.expect_delivery(channel)
    client.send(Queue.Delete(queue="s"))
    # Nothing of it depends on who is told first.
    told = [client.receive() for _ in range(3)]
    assert sorted(type(frame).__name__ for _, frame in told) == ["Cancel", "Cancel", "DeleteOk"]
    for channel in (2, 3):
        client.send(Basic.Ack(2, True), channel)
        client.send(Basic.Nack(3), channel)
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, channel)
    client.declare("s", arguments=STREAM)
    assert client.ready_count("s") == 0
