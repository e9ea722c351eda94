"""A queue that the start could not recover refuses publishes; none is dropped."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Exchange, Queue, Tx

from appendlog.files.filesystem import FILE_MODE, FileSystem
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash
OK = Exchange.DeclareOk


class UnreadableLog(FileSystem):
    """A disk that has trouble with the log of the queue `bad`."""

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Refuse the log files that are there."""
        if path.suffix == ".log" and "bad" in path.parts and not flags & os.O_CREAT:
            raise OSError(5, "Input/output error")
        return super().open(path, flags, mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with `good` and `bad`, bound to `x`, and a message in each."""
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.call(Exchange.Declare(exchange="x", exchange_type="fanout", durable=True), OK)
        for queue in ("good", "bad"):
            client.declare(queue)
            client.call(Queue.Bind(queue=queue, exchange="x"), Queue.BindOk)
            client.publish(b"kept", queue)
            client.expect_confirmed()
    return tmp_path


@contextmanager
def damaged(data: Path) -> Iterator[AmqpClient]:
    """Start on a disk that cannot read the log of `bad`."""
    with ThreadedServer(data, UnreadableLog()) as server, connect(server.address) as client:
        yield client


def bodies(client: AmqpClient, queue: str, channel: int = 1) -> list[bytes]:
    found = []
    while (message := client.get(queue, channel=channel)) is not None:
        found.append(message.body)
    return found


@pytest.mark.parametrize("mandatory", [False, True])
def test_a_confirming_publisher_gets_a_nack_and_no_return(data: Path, mandatory: bool) -> None:
    """It got an ack, and the message was in no queue."""
    with damaged(data) as client:
        client.open_channel(confirms=True)
        client.publish(b"lost", "bad", mandatory=mandatory)
        assert client.expect(Basic.Nack).delivery_tag == 1
        client.publish(b"fine", "good", mandatory=mandatory)
        assert client.expect(Basic.Ack).delivery_tag == 2


def test_the_healthy_queues_take_a_publish_that_a_damaged_one_refuses(data: Path) -> None:
    with damaged(data) as client:
        client.open_channel(confirms=True)
        client.publish(b"both", "any", exchange="x")
        assert client.expect(Basic.Nack).delivery_tag == 1
        assert bodies(client, "good") == [b"kept", b"both"]


def test_a_queue_with_a_damaged_definition_refuses_too(data: Path) -> None:
    (document,) = (data / "metadata" / "queues").rglob("bad.json")
    document.write_bytes(document.read_bytes()[:20])
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"lost", "bad")
        assert client.expect(Basic.Nack).delivery_tag == 1
        client.publish(b"both", "any", exchange="x")
        assert client.expect(Basic.Nack).delivery_tag == 2


def test_with_a_damaged_directory_every_name_without_a_queue_refuses(data: Path) -> None:
    queues = data / "metadata" / "queues"
    shutil.rmtree(queues)
    queues.write_text("in the way")
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"lost", "never heard of")
        assert client.expect(Basic.Nack).delivery_tag == 1
        client.publish(b"both", "any", exchange="x")
        assert client.expect(Basic.Nack).delivery_tag == 2
        # A transient queue may have such a name, and takes the messages for it.
        client.call(Queue.Declare(queue="bad", exclusive=True), Queue.DeclareOk)
        client.publish(b"taken", "bad")
        assert client.expect(Basic.Ack).delivery_tag == 3
        assert bodies(client, "bad") == [b"taken"]


def test_a_transaction_is_refused_as_a_whole(data: Path) -> None:
    with damaged(data) as client:
        client.open_channel()
        client.call(Tx.Select(), Tx.SelectOk)
        client.publish(b"half", "good")
        client.publish(b"half", "bad")
        client.send(Tx.Commit())
        text = client.expect_channel_close(406).reply_text
        assert "not committed: queue 'bad' in vhost '/' is failed" in text
        client.open_channel(2)
        assert bodies(client, "good", channel=2) == [b"kept"]


def test_a_transaction_leads_to_the_queue_that_takes_the_place_of_a_damaged_one(
    data: Path,
) -> None:
    with damaged(data) as client:
        client.open_channel()
        client.call(Tx.Select(), Tx.SelectOk)
        client.publish(b"taken", "bad")
        client.open_channel(2)
        client.call(Queue.Delete(queue="bad"), Queue.DeleteOk, 2)
        client.declare("bad", channel=2)
        client.call(Tx.Commit(), Tx.CommitOk)
        assert bodies(client, "bad", channel=2) == [b"taken"]


def test_without_confirms_the_message_is_dropped_and_the_log_says_so_once(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with damaged(data) as client, caplog.at_level(logging.WARNING):
        client.open_channel()
        for _ in range(5):
            client.publish(b"lost", "bad")
        assert bodies(client, "good") == [b"kept"]
    lines = [each for each in caplog.messages if each.startswith("messages refused")]
    assert len(lines) == 1
    assert "queue=bad" in lines[0]


def test_dead_letters_wait_until_their_target_is_recovered(data: Path) -> None:
    arguments: Any = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "bad"}
    with damaged(data) as client:
        client.open_channel(confirms=True)
        client.declare("source", arguments=arguments)
        client.publish(b"letter", "source")
        client.expect_confirmed()
        message = client.get("source", no_ack=False)
        assert message is not None
        client.send(Basic.Reject(delivery_tag=message.tag, requeue=False))
        assert client.ready_count("source") == 0
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        message = client.get("source", no_ack=False)
        assert message is not None, "the letter was dropped"
        client.send(Basic.Reject(delivery_tag=message.tag, requeue=False))
        bad = server.server.broker.vhosts["/"].queues["bad"]
        server.wait_until(lambda: bad.ready_count == 2)
        assert bodies(client, "bad") == [b"kept", b"letter"]


def test_after_its_deletion_a_damaged_queue_is_unroutable(data: Path) -> None:
    with damaged(data) as client:
        client.open_channel(confirms=True)
        client.publish(b"lost", "bad")
        assert client.expect(Basic.Nack).delivery_tag == 1
        client.call(Queue.Delete(queue="bad"), Queue.DeleteOk)
        client.publish(b"nowhere", "bad", mandatory=True)
        assert client.expect_return().body == b"nowhere"
        assert client.expect(Basic.Ack).delivery_tag == 2
        client.publish(b"one", "any", exchange="x")
        assert client.expect(Basic.Ack).delivery_tag == 3
        client.declare("bad")
        client.publish(b"new", "bad")
        assert client.expect(Basic.Ack).delivery_tag == 4
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        assert bodies(client, "bad") == [b"new"]
        exchanges = server.server.broker.vhosts["/"].exchanges
        assert len(server.call(lambda: dict(exchanges["x"].bindings))) == 1


def test_deleting_a_damaged_queue_deletes_the_auto_delete_exchange_that_only_it_used(
    data: Path,
) -> None:
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        client.call(Exchange.Declare(exchange="auto", durable=True, auto_delete=True), OK)
        client.call(Queue.Bind(queue="bad", exchange="auto"), Queue.BindOk)
    with damaged(data) as client:
        client.open_channel()
        client.call(Queue.Delete(queue="bad"), Queue.DeleteOk)
        client.send(Exchange.Declare(exchange="auto", passive=True))
        assert client.expect(Channel.Close).reply_code == 404


def test_a_damaged_exchange_refuses_messages_from_other_exchanges(
    tmp_path: Path,
) -> None:
    """By a binding, as an alternate exchange, as a dead-letter exchange."""
    alternate: Any = {"alternate-exchange": "bad"}
    dead_letters: Any = {"x-dead-letter-exchange": "bad"}
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.call(Exchange.Declare(exchange="bad", exchange_type="fanout", durable=True), OK)
        client.call(Exchange.Declare(exchange="before", exchange_type="fanout", durable=True), OK)
        client.call(Exchange.Declare(exchange="other", durable=True, arguments=alternate), OK)
        client.call(Exchange.Bind(destination="bad", source="before"), Exchange.BindOk)
        client.declare("q")
        client.call(Queue.Bind(queue="q", exchange="bad"), Queue.BindOk)
        client.declare("source", arguments=dead_letters)
    (document,) = (tmp_path / "metadata" / "exchanges").rglob("bad.json")
    content = document.read_bytes()
    document.write_bytes(b"{")
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"bound", "", exchange="before")
        assert client.expect(Basic.Nack).delivery_tag == 1
        client.publish(b"alternate", "", exchange="other")
        assert client.expect(Basic.Nack).delivery_tag == 2
        client.publish(b"letter", "source")
        assert client.expect(Basic.Ack).delivery_tag == 3
        message = client.get("source", no_ack=False)
        assert message is not None
        client.send(Basic.Reject(delivery_tag=message.tag, requeue=False))
        assert client.ready_count("source") == 0
    document.write_bytes(content)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"bound", "", exchange="before")
        assert client.expect(Basic.Ack).delivery_tag == 1
        assert client.ready_count("source") == 1
        assert bodies(client, "q") == [b"bound"]
