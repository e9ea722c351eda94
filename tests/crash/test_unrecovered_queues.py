"""A queue that one start cannot recover keeps its name, and the next start recovers it."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from amqp_server.start_and_stop import start
from appendlog.files.filesystem import FILE_MODE, FileSystem
from tests.amqp_client import AmqpClient, connect
from tests.crash.power import Power
from tests.data_directories import log_of
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash


class UnreadableLogs(FileSystem):
    """A disk that has trouble with the logs for a while."""

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Refuse log files."""
        if path.suffix == ".log" and "logs" in path.parts:
            raise OSError(5, "Input/output error")
        return super().open(path, flags, mode)


def fill(client: AmqpClient, *queues: str) -> None:
    """Declare queues and put one confirmed message into each."""
    client.open_channel(confirms=True)
    for queue in queues:
        client.declare(queue)
        client.publish(b"kept", queue)
        client.expect_confirmed()


def add_one_of_each(client: AmqpClient) -> None:
    """Make an exchange, a queue whose document sorts before `good`, and a binding between them."""
    client.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
    client.declare("bad")
    client.call(Queue.Bind(queue="bad", exchange="x"), Queue.BindOk)


def documents(storage: Path, kind: str) -> list[Path]:
    """Return the metadata files of one kind."""
    return sorted((storage / "metadata" / kind).rglob("*.json"))


def test_a_queue_whose_log_cannot_be_opened_is_neither_made_again_nor_lost(tmp_path: Path) -> None:
    """It could be declared again, and the start after that removed the old log."""
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        fill(client, "q")
    for method in (Queue.Declare(queue="q", durable=True), Queue.Declare(queue="q", passive=True)):
        with (
            ThreadedServer(tmp_path, UnreadableLogs()) as server,
            connect(server.address) as client,
        ):
            client.open_channel()
            client.send(method)
            assert "could not be recovered" in client.expect_channel_close(404).reply_text
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        message = client.get("q")
        assert message is not None
        assert message.body == b"kept"


def test_a_queue_whose_document_cannot_be_read_is_not_made_again(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        fill(client, "q")
    (document,) = documents(tmp_path, "queues")
    content = document.read_bytes()
    document.write_bytes(b"{")
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", durable=True))
        client.expect_channel_close(404)
    document.write_bytes(content)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert client.get("q") is not None


@pytest.mark.parametrize("kind", ["queues", "exchanges", "bindings"])
def test_an_empty_document_stops_no_other_definition(tmp_path: Path, kind: str) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        fill(client, "good")
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        add_one_of_each(client)
    (document, *_) = documents(tmp_path, kind)
    malformed = json.dumps({**json.loads(document.read_bytes()), "body": {}})
    document.write_text(malformed)

    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        message = client.get("good")
        assert message is not None
        assert message.body == b"kept"
    assert document.read_text() == malformed


def test_logs_without_any_definition_are_not_removed(tmp_path: Path) -> None:
    """As after a copy that left the definitions out: the first start took all messages away."""
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        fill(client, "q")
    metadata = tmp_path / "metadata"
    metadata.rename(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(StartupError, match=r"metadata is empty or missing, but .* has logs"):
            ThreadedServer(tmp_path).__enter__()
        assert not documents(tmp_path, "vhosts")
    (tmp_path / "elsewhere").rename(metadata)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert client.get("q") is not None


def test_an_exchange_of_an_unknown_type_stops_no_other_definition(tmp_path: Path) -> None:
    """The refusal that a client would have got ended the start."""
    kind: Any = {"x-delayed-type": "fanout"}
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        fill(client, "good")
        client.call(
            Exchange.Declare(0, "x", "x-delayed-message", False, True, arguments=kind),
            Exchange.DeclareOk,
        )
    (document,) = documents(tmp_path, "exchanges")
    of_a_later_version = document.read_bytes().replace(b"fanout", b"newest")
    document.write_bytes(of_a_later_version)

    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert client.get("good") is not None
    assert document.read_bytes() == of_a_later_version


def test_a_binding_without_its_queue_keeps_the_name_until_the_queue_is_deleted(
    tmp_path: Path,
) -> None:
    """The binding was removed, and what it would have routed was dropped."""
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.call(Queue.Bind(queue="q", exchange="amq.fanout"), Queue.BindOk)
    (document,) = documents(tmp_path, "queues")
    document.unlink()
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", durable=True))
        client.expect_channel_close(404)
        client.open_channel(confirms=True)
        client.publish(b"refused", "", exchange="amq.fanout")
        client.expect(Basic.Nack)
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        client.declare("q")
    with ThreadedServer(tmp_path) as server:
        exchanges = server.server.broker.vhosts["/"].exchanges
        assert not server.call(lambda: dict(exchanges["amq.fanout"].bindings))


def test_a_binding_of_a_queue_that_could_not_be_recovered_stays(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        fill(client, "q")
        client.call(Queue.Bind(queue="q", exchange="amq.fanout"), Queue.BindOk)
    with ThreadedServer(tmp_path, UnreadableLogs()):
        pass
    with ThreadedServer(tmp_path) as server:
        exchanges = server.server.broker.vhosts["/"].exchanges
        assert len(server.call(lambda: dict(exchanges["amq.fanout"].bindings))) == 1


class UndeletableLogs(FileSystem):
    """A disk that removes no log."""

    def unlink(self, path: Path) -> None:
        """Refuse log files."""
        if "logs" in path.parts:
            raise OSError(5, "Input/output error")
        super().unlink(path)


def test_a_deleted_log_that_cannot_be_removed_does_not_prevent_a_start(
    tmp_path: Path,
) -> None:
    """The server ended with a traceback, and so did every start after it."""
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        fill(client, "q")
    (log,) = tmp_path.glob("logs/*/*/*")
    unknown = log.with_name("00000000-0000-0000-0000-000000000000")
    shutil.copytree(log, unknown)
    (unknown / "deleted").touch()
    with (
        ThreadedServer(tmp_path, UndeletableLogs()) as server,
        connect(server.address) as client,
    ):
        client.open_channel()
        assert client.ready_count("q") == 1
    assert unknown.exists()
    with ThreadedServer(tmp_path):
        pass
    assert not unknown.exists()


def test_a_queue_that_one_start_missed_after_a_crash_is_marked_by_the_next(
    tmp_path: Path,
) -> None:
    """The stop in between was clean, and so its messages came as if they were new."""
    power = Power(tmp_path)
    with ThreadedServer(tmp_path, power) as server, connect(server.address) as client:
        fill(client, "q")
        client.publish(b"later", "q")
        client.expect_confirmed()
        assert client.get("q") is not None
        server.run(server.server.checkpointer.write_round)
        assert client.get("q", no_ack=False) is not None
        power.unplug()
        server.abandon()
    with ThreadedServer(tmp_path, UnreadableLogs()):
        pass
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        message = client.get("q")
        assert message is not None
        assert message.redelivered


def test_a_lost_log_is_reported_and_its_offsets_are_not_used_again(tmp_path: Path) -> None:
    """The queue began again at 0, and the checkpoint took its new messages for settled ones."""
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(10):
            client.publish(b"%d" % number, "q")
        client.expect_confirmed()
        for _ in range(6):
            assert client.get("q") is not None
    shutil.rmtree(log_of(tmp_path, "q"))
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        assert client.ready_count("q") == 0
        queue = server.server.broker.vhosts["/"].queues["q"]
        assert queue.store.end_offset >= 6
        report = json.loads((tmp_path / "recovery.json").read_bytes())
        assert report["outcome"] == "damaged"
        for number in range(3):
            client.publish(b"new %d" % number, "q")
        client.expect_confirmed()
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert client.ready_count("q") == 3


def test_a_start_on_an_address_in_use_leaves_the_disk_unchanged(tmp_path: Path) -> None:
    """It recovered all queues first, and then complained."""
    with ThreadedServer(tmp_path / "one") as server:
        _, port = server.address
        config = ServerConfig(port=port, storage_path=tmp_path / "other")
        with pytest.raises(StartupError, match="Address already in use"):
            asyncio.run(start(config))
    assert not (tmp_path / "other").exists()
