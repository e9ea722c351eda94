"""The broker in the process of the tests: what it offers, and when it refuses."""

import asyncio
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from amqp_server.base.config import ConfigError
from amqp_server.base.errors import StartupError
from amqp_server.broker.vhost_changes import VhostExistsError
from amqp_server.testing import Broker, BrokerStateError
from amqp_server.testing.loop_thread import LoopThread
from amqp_server.testing.temporary_directory import disk_directory

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@contextmanager
def channel(url: str) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        opened = connection.channel()
        opened.confirm_delivery()
        yield opened


def publish_three_kinds(url: str) -> None:
    with channel(url) as opened:
        opened.queue_declare("durable", durable=True)
        opened.queue_declare("transient")
        opened.basic_publish("", "durable", b"persistent", PERSISTENT)
        opened.basic_publish("", "durable", b"transient")
        opened.basic_publish("", "transient", b"persistent", PERSISTENT)


def left(url: str, queue: str) -> list[bytes]:
    with channel(url) as opened:
        bodies = []
        while (found := opened.basic_get(queue, auto_ack=True))[0] is not None:
            bodies.append(found[2])
        return bodies


def test_a_blocking_client_finds_it_at_its_url() -> None:
    with Broker() as broker:
        assert broker.url == f"amqp://guest:guest@127.0.0.1:{broker.port}/%2F"
        assert (broker.host, broker.vhost) == ("127.0.0.1", "/")
        publish_three_kinds(broker.url)
        assert left(broker.url, "durable") == [b"persistent", b"transient"]


async def test_an_asyncio_client_uses_it_from_its_own_loop() -> None:
    async with Broker() as broker, await aio_pika.connect(broker.url) as connection:
        opened = await connection.channel()
        queue = await opened.declare_queue("orders")
        await opened.default_exchange.publish(aio_pika.Message(b"one"), "orders")
        message = await queue.get()
        assert message.body == b"one"


async def test_a_client_on_the_loop_that_closes_the_broker_hears_why() -> None:
    reasons: asyncio.Queue[BaseException | None] = asyncio.Queue()
    async with Broker() as broker:
        connection = await aio_pika.connect(broker.url)
        connection.close_callbacks.add(lambda _connection, reason: reasons.put_nowait(reason))
    assert "shutdown" in str(await reasons.get())


async def test_a_notebook_starts_it_in_one_cell_and_closes_it_in_another() -> None:
    """A notebook runs its cells inside an event loop."""
    broker = Broker().start()
    publish_three_kinds(broker.url)
    await asyncio.sleep(0)
    assert left(broker.url, "transient") == [b"persistent"]
    broker.close()


def test_many_brokers_run_side_by_side() -> None:
    with Broker() as first, Broker() as second:
        assert first.port != second.port
        publish_three_kinds(first.url)
        publish_three_kinds(second.url)
        assert left(first.url, "transient") == left(second.url, "transient") == [b"persistent"]


@pytest.mark.parametrize("durable", [False, True])
def test_what_is_durable_survives_a_restart_on_the_same_port(durable: bool) -> None:
    with Broker(durable=durable) as broker:
        url = broker.url
        publish_three_kinds(url)
        broker.restart()
        assert broker.url == url
        assert left(url, "durable") == [b"persistent"]
        with channel(url) as opened, pytest.raises(pika.exceptions.ChannelClosedByBroker):
            opened.queue_declare("transient", passive=True)


def test_clients_are_refused_between_stop_and_start() -> None:
    with Broker() as broker:
        publish_three_kinds(broker.url)
        broker.stop()
        assert not broker.is_running
        with socket.socket() as client:
            assert client.connect_ex((broker.host, broker.port)) == errno.ECONNREFUSED
        broker.start()
        assert left(broker.url, "durable") == [b"persistent"]


def test_no_other_program_gets_the_port_of_a_stopped_broker() -> None:
    with Broker() as broker:
        broker.stop()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((broker.host, broker.port))
        broker.start()


def test_a_blocking_client_that_cannot_answer_does_not_delay_the_stop() -> None:
    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        broker.restart()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown"):
            connection.channel()


def test_virtual_hosts_share_nothing() -> None:
    with Broker() as broker, broker.new_vhost() as first, broker.new_vhost() as second:
        assert len({broker.url, first.url, second.url}) == 3
        publish_three_kinds(first.url)
        with channel(second.url) as opened:
            opened.queue_declare("durable", durable=True)
        assert left(second.url, "durable") == []
        assert left(first.url, "durable") == [b"persistent", b"transient"]


def test_a_deleted_virtual_host_closes_its_connections_and_leaves_nothing() -> None:
    with Broker() as broker:
        vhost = broker.new_vhost("shop a/b")
        publish_three_kinds(vhost.url)
        connection = pika.BlockingConnection(pika.URLParameters(vhost.url))
        vhost.delete()
        vhost.delete()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="is deleted"):
            connection.channel()
        with broker.new_vhost("shop a/b") as again, channel(again.url) as opened:
            assert opened.queue_declare("durable", durable=True).method.message_count == 0


def test_a_virtual_host_survives_a_restart_and_its_name_is_not_used_again() -> None:
    with Broker() as broker:
        first = broker.new_vhost()
        publish_three_kinds(first.url)
        first.restart()
        assert left(first.url, "durable") == [b"persistent"]
        assert broker.new_vhost().vhost != first.vhost
        with pytest.raises(VhostExistsError):
            broker.new_vhost(first.vhost)


def test_a_data_directory_that_is_given_stays(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with Broker(storage_path=path) as broker:
        publish_three_kinds(broker.url)
        old = broker.new_vhost()
    with Broker(storage_path=str(path)) as broker:
        assert left(broker.url, "durable") == [b"persistent"]
        assert broker.new_vhost().vhost != old.vhost


def test_settings_of_the_server_can_be_given() -> None:
    with (
        Broker(max_message_bytes=1024) as broker,
        channel(broker.url) as opened,
        pytest.raises(pika.exceptions.ChannelClosedByBroker),
    ):
        opened.basic_publish("", "q", b"x" * 2000)


def test_it_runs_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    thread = LoopThread("without uvloop")
    thread.start()
    module = thread.submit(module_of_the_loop()).result()
    thread.close()
    assert module.startswith("asyncio.")
    with Broker() as broker:
        publish_three_kinds(broker.url)
        broker.restart()
        assert left(broker.url, "durable") == [b"persistent"]


async def module_of_the_loop() -> str:
    return type(asyncio.get_running_loop()).__module__


# Refusals


def test_it_says_how_to_start_it_before_its_start() -> None:
    broker = Broker()
    for use in (lambda: broker.url, lambda: broker.port, broker.restart, broker.new_vhost):
        with pytest.raises(BrokerStateError, match="has not started: use it inside `with Broker"):
            use()
    broker.close()


def test_a_second_start_is_refused_and_the_first_goes_on() -> None:
    with Broker() as broker:
        with pytest.raises(BrokerStateError, match=f"runs already at {broker.url}"):
            broker.start()
        publish_three_kinds(broker.url)


def test_a_closed_broker_is_over() -> None:
    with Broker() as broker:
        pass
    broker.close()
    with pytest.raises(BrokerStateError, match="is closed"):
        _ = broker.url
    with pytest.raises(BrokerStateError, match="make a new Broker"):
        broker.start()


def test_a_stopped_broker_creates_no_virtual_host() -> None:
    with Broker() as broker:
        broker.stop()
        for use in (broker.new_vhost, broker.stop, broker.restart):
            with pytest.raises(BrokerStateError, match="is stopped: call start"):
                use()


def test_a_start_that_fails_says_why_and_can_be_tried_with_another_broker(tmp_path: Path) -> None:
    with Broker(storage_path=tmp_path) as broker:
        with pytest.raises(StartupError, match=str(tmp_path)):
            Broker(storage_path=tmp_path).start()
        with pytest.raises(StartupError, match=f"{broker.port}: Address already in use"):
            Broker(port=broker.port).start()
        publish_three_kinds(broker.url)


async def test_a_start_that_fails_in_asyncio_says_why(tmp_path: Path) -> None:
    async with Broker(storage_path=tmp_path):
        with pytest.raises(StartupError, match=str(tmp_path)):
            async with Broker(storage_path=tmp_path):
                pass


def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"no setting 'max_message_size': it has .*max_message_byt"):
        Broker(max_message_size=1)
    with pytest.raises(TypeError, match="no setting 'log_level'"):
        Broker(log_level="debug")
    with pytest.raises(ConfigError, match="max_message_bytes"):
        Broker(max_message_bytes=1)


def test_a_fork_cannot_stop_the_broker_of_its_parent() -> None:
    with Broker() as broker:
        publish_three_kinds(broker.url)
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                broker.restart()
            except BrokerStateError:
                refused = 1
            broker.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert left(broker.url, "durable") == [b"persistent", b"transient"]


def test_a_durable_broker_has_its_files_on_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Broker(durable=True):
        assert disk_directory() == tmp_path
        (directory,) = tmp_path.iterdir()
        assert (directory / "data" / "LOCK").exists()
    assert list(tmp_path.iterdir()) == []


def _stop_and_fail(broker: Broker) -> None:
    with broker.new_vhost():
        broker.stop()
        raise ZeroDivisionError


def test_the_error_of_a_test_is_not_replaced_by_that_of_a_stopped_broker() -> None:
    with Broker() as broker, pytest.raises(ZeroDivisionError):
        _stop_and_fail(broker)
