"""Definitions that the disk refuses: the client gets an error, and nothing half made is left."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, connect, describe
from tests.crash.messages import publish_confirmed
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer, two_clients

pytestmark = pytest.mark.crash


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    """Start a server whose definitions cannot be written: a file stands in their way."""
    with ThreadedServer(tmp_path / "data") as server:
        metadata = tmp_path / "data" / "metadata"
        metadata.mkdir(exist_ok=True)
        for kind in ("queues", "exchanges", "bindings"):
            (metadata / kind).write_text("in the way")
        yield server


def expect_refusal(client: AmqpClient) -> None:
    """Take the server's channel.close or connection.close."""
    _, value = client.receive()
    assert isinstance(value, Channel.Close | Connection.Close), describe(value)
    assert value.reply_code in (406, 541), describe(value)


def test_a_queue_that_cannot_be_saved_is_refused_and_does_not_exist(server: ThreadedServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", durable=True))
        expect_refusal(client)
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", passive=True))
        client.expect_channel_close(404)


def test_a_refusal_by_the_disk_is_one_line_without_a_traceback(
    server: ThreadedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", durable=True))
        expect_refusal(client)
    (line,) = [each for each in caplog.records if each.getMessage().startswith("method failed")]
    assert line.exc_info is None
    assert "method=queue.declare" in line.getMessage()
    assert "could not be written" in line.getMessage()


def test_an_exchange_that_cannot_be_saved_is_refused_and_does_not_exist(
    server: ThreadedServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(Exchange.Declare(exchange="x", durable=True))
        expect_refusal(client)
    with connect(server.address) as client:
        client.open_channel()
        client.send(Exchange.Declare(exchange="x", passive=True))
        client.expect_channel_close(404)


def test_messages_sent_behind_a_refused_declare_are_not_confirmed(server: ThreadedServer) -> None:
    with connect(server.address) as client, connect(server.address) as publisher:
        publisher.open_channel(confirms=True)
        client.open_channel()
        client.send(Queue.Declare(queue="q", durable=True))
        publisher.publish(b"lost", "q", mandatory=True)
        expect_refusal(client)
        # Before the refusal it is refused as well; after it there is no such queue.
        _, answer = publisher.receive()
        assert isinstance(answer, Basic.Nack | Basic.Return), describe(answer)


def test_a_binding_that_cannot_be_saved_is_refused_and_does_not_exist(
    server: ThreadedServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        bind = Exchange.Bind(destination="amq.fanout", source="amq.direct", routing_key="k")
        client.send(bind)
        expect_refusal(client)
    direct = server.call(lambda: server.server.broker.vhosts["/"].exchanges["amq.direct"])
    assert not direct.bindings


def test_transient_definitions_need_no_disk(server: ThreadedServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("memory", durable=False)
        publish_confirmed(client, "memory", range(3))
        assert client.ready_count("memory") == 3


def test_a_queue_that_cannot_be_deleted_keeps_its_messages(tmp_path: Path) -> None:
    queues = tmp_path / "data" / "metadata" / "queues"
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"kept", "q")
        client.expect_confirmed()
        queues.rename(queues.with_name("away"))
        queues.write_text("in the way")

        client.send(Queue.Delete(queue="q"))

        expect_refusal(client)
        queues.unlink()
        queues.with_name("away").rename(queues)
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as client:
        client.open_channel()
        message = client.get("q")
        assert message is not None
        assert message.body == b"kept"


class FailsOnce:
    """Makes the first write of a document wait for a gate and then fail.

    Args:
        server: Whose metadata store.
    """

    def __init__(self, server: ThreadedServer) -> None:
        self.is_writing = threading.Event()
        self._gate = threading.Event()
        self._first = threading.Lock()
        files = server.server.metadata._files
        self._write = files.write
        server.call(lambda: setattr(files, "write", self._fail_first))

    def fail(self) -> None:
        """Let the write that waits fail."""
        self._gate.set()

    def _fail_first(self, path: Path, content: bytes) -> None:
        if not self._first.acquire(blocking=False):
            self._write(path, content)
            return
        self.is_writing.set()
        assert self._gate.wait(HANG_SECONDS)
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "declare",
    [Queue.Declare(queue="name", durable=True), Exchange.Declare(exchange="name", durable=True)],
)
def test_two_clients_that_declare_one_queue_get_the_same_reply(
    tmp_path: Path, declare: Queue.Declare | Exchange.Declare
) -> None:
    """The second one's write could succeed for what the first one's failure had removed."""
    with two_clients(tmp_path) as (server, first, second):
        disk = FailsOnce(server)
        first.send(declare)
        assert disk.is_writing.wait(HANG_SECONDS)
        second.send(declare)
        # Answered, and so behind the declare of the other connection.
        with connect(server.address) as witness:
            witness.open_channel()
        disk.fail()

        expect_refusal(first)
        expect_refusal(second)
    assert not list((tmp_path / "metadata").rglob("name*.json"))


def test_the_bindings_of_a_queue_that_cannot_be_saved_do_not_hold_for_its_successor(
    tmp_path: Path,
) -> None:
    """The binding's own definition was written, and waited for a queue of that name."""
    with two_clients(tmp_path) as (server, first, second):
        disk = FailsOnce(server)
        first.send(Queue.Declare(queue="q", durable=True))
        assert disk.is_writing.wait(HANG_SECONDS)
        first.send(Queue.Bind(queue="q", exchange="amq.fanout"))
        fanout = server.server.broker.vhosts["/"].exchanges["amq.fanout"]
        server.wait_until(lambda: bool(fanout.bindings))
        disk.fail()
        expect_refusal(first)
        second.declare("q")
    with ThreadedServer(tmp_path) as server:
        exchanges = server.server.broker.vhosts["/"].exchanges
        assert not server.call(lambda: dict(exchanges["amq.fanout"].bindings))


def test_a_commit_to_an_exchange_that_is_being_saved_waits_for_it_and_saves_nothing_else(
    tmp_path: Path,
) -> None:
    """Its hidden queue was saved as a queue of its own, for all to see after a restart."""
    with two_clients(tmp_path) as (server, first, second):
        second.call(Tx.Select(), Tx.SelectOk)
        disk = FailsOnce(server)
        kind: Any = {"x-delayed-type": "direct"}
        first.send(Exchange.Declare(0, "x", "x-delayed-message", False, True, arguments=kind))
        assert disk.is_writing.wait(HANG_SECONDS)
        delayed = Basic.Properties(delivery_mode=2, headers={"x-delay": 60_000})
        second.publish(b"later", "key", "x", properties=delayed)
        second.send(Tx.Commit())
        # Answered, and so behind the commit of the other connection.
        with connect(server.address) as witness:
            witness.open_channel()
        disk.fail()

        expect_refusal(first)
        second.expect(Tx.CommitOk)
    assert not list((tmp_path / "metadata").rglob("amq.delayed*"))


class Unmarkable(FaultyFileSystem):
    """A disk that takes no mark of a deletion: what is deleted has to stay."""

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        """Refuse the mark."""
        if path.name == "deleted":
            raise OSError(5, "Input/output error")
        return super().open(path, flags, mode)


def test_messages_that_a_failed_deletion_cut_off_from_the_disk_are_not_confirmed(
    tmp_path: Path,
) -> None:
    """It was confirmed as if the deletion had worked, and the queue came back without it."""
    filesystem = Unmarkable(tmp_path)
    with (
        ThreadedServer(tmp_path, filesystem) as server,
        connect(server.address) as client,
        connect(server.address) as publisher,
    ):
        client.open_channel()
        client.declare("q")
        publisher.open_channel(confirms=True)
        filesystem.sync_gate.clear()
        publisher.publish(b"being written", "q")
        assert filesystem.sync_waiting.wait(HANG_SECONDS)
        publisher.publish(b"not yet written", "q")
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: queue.store.end_offset == 2)

        client.send(Queue.Delete(queue="q"))

        expect_refusal(client)
        filesystem.sync_gate.set()
        assert publisher.expect(Basic.Nack).delivery_tag == 2
