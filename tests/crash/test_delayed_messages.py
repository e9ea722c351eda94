"""Confirmed delayed messages survive the end of the server and arrive in time."""

import time
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, connect, describe
from tests.conftest import StartServer
from tests.crash.test_rules_after_restart import inline_bodies, pass_time, started_later
from tests.faults.inline_server import InlineServer
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

MESSAGES = 50
SOON_MS, NEVER_MS = 700, 3_600_000


def delayed(delay_ms: int) -> Basic.Properties:
    return Basic.Properties(headers={"x-delay": delay_ms}, delivery_mode=2)


def delayed_exchange() -> Exchange.Declare:
    arguments: Any = {"x-delayed-type": "direct"}
    return Exchange.Declare(0, "x", "x-delayed-message", False, True, arguments=arguments)


def declare_delayed(client: AmqpClient) -> None:
    client.call(delayed_exchange(), Exchange.DeclareOk)


def publish_delayed(server: RunningServer, delay_ms: int) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        declare_delayed(client)
        client.declare("q")
        client.call(Queue.Bind(0, "q", "x", "key"), Queue.BindOk)
        for at in range(MESSAGES):
            client.publish(b"%d" % at, "key", "x", properties=delayed(delay_ms))
        client.expect_confirmed()


def end(server: RunningServer, *, cleanly: bool) -> None:
    if cleanly:
        assert server.terminate() == 0
    else:
        server.kill()


def consumed(client: AmqpClient) -> list[bytes]:
    """Return what comes until there was each of the messages: some twice, after a kill."""
    client.open_channel()
    client.consume("q", no_ack=True)
    bodies: list[bytes] = []
    while len(set(bodies)) < MESSAGES:
        bodies.append(client.expect_delivery().body)
    return bodies


@pytest.mark.parametrize("cleanly", [True, False])
def test_confirmed_delayed_messages_arrive_after_a_restart(
    start_server: StartServer, cleanly: bool
) -> None:
    server = start_server()
    begun = time.monotonic()
    publish_delayed(server, SOON_MS)
    end(server, cleanly=cleanly)
    server.restart()

    with connect(server.address) as client:
        bodies = consumed(client)
        assert len(bodies) == MESSAGES or not cleanly
        assert list(dict.fromkeys(bodies)) == [b"%d" % at for at in range(MESSAGES)]
        assert time.monotonic() - begun >= SOON_MS / 1000


def test_delayed_messages_that_became_due_during_a_stop_arrive_at_once(
    start_server: StartServer,
) -> None:
    server = start_server()
    begun = time.monotonic()
    publish_delayed(server, SOON_MS)
    server.kill()
    time.sleep(max(begun + SOON_MS / 1000 - time.monotonic(), 0))
    server.restart()

    with connect(server.address) as client:
        assert len(set(consumed(client))) == MESSAGES


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_delays_that_end_while_the_server_is_down_deliver_each_message_once(
    tmp_path: Path, how: str
) -> None:
    def publish(server: InlineServer) -> None:
        client = server.connect()
        client.call(delayed_exchange())
        client.call(Queue.Declare(queue="q", durable=True))
        client.call(Queue.Bind(0, "q", "x", "key"))
        client.open_channel(2, confirms=True)
        for number in range(MESSAGES):
            properties = delayed(SOON_MS - MESSAGES + number)
            client.publish(b"%d" % number, "key", "x", properties=properties, channel=2)
        client.publish(b"later", "key", "x", properties=delayed(NEVER_MS), channel=2)
        server.settle()
        assert len(client.confirmed) == MESSAGES + 1
        assert client.get("q") is None

    with started_later(tmp_path, how, publish, SOON_MS / 1000) as server:
        client = server.connect()
        server.settle()
        assert inline_bodies(client, "q") == [b"%d" % number for number in range(MESSAGES)]
        # Long after all retries nothing comes again, and what is not due then has not come.
        pass_time(server, NEVER_MS / 1000 - 60)
        assert client.get("q", no_ack=True) is None
        pass_time(server, 60)
        assert inline_bodies(client, "q") == [b"later"]


def test_forwarded_delayed_messages_do_not_return_after_a_clean_stop(
    start_server: StartServer,
) -> None:
    server = start_server()
    publish_delayed(server, 1)
    with connect(server.address) as client:
        assert len(consumed(client)) == MESSAGES
    end(server, cleanly=True)
    server.restart()

    with connect(server.address) as client:
        client.open_channel()
        # Published behind whatever would come again.
        client.publish(b"last", "key", "x")
        client.consume("q", no_ack=True)
        assert client.expect_delivery().body == b"last"


def test_deleting_a_delayed_exchange_deletes_its_messages_and_its_log(
    start_server: StartServer, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    server = start_server(storage_path=path)
    publish_delayed(server, NEVER_MS)
    assert len(list(path.glob("logs/*/amq.delayed/*/*.log"))) == 1
    with connect(server.address) as client:
        client.open_channel()
        client.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)
    server.terminate()
    assert not list(path.glob("logs/*/amq.delayed/*"))
    server.restart()

    with connect(server.address) as client:
        client.open_channel()
        client.send(Exchange.Declare(exchange="x", passive=True))
        client.expect_channel_close(404)


def test_deleting_a_virtual_host_deletes_its_delayed_messages(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server:
        ask(tmp_path, "vhosts.add", name="second")
        with AmqpClient(server.address) as client:
            client.open(vhost="second")
            client.open_channel(confirms=True)
            declare_delayed(client)
            client.publish(b"x", "key", "x", properties=delayed(NEVER_MS))
            client.expect_confirmed()
        assert list(tmp_path.glob("logs/second/amq.delayed/*/*.log"))
        ask(tmp_path, "vhosts.delete", name="second")
        server.wait_until(lambda: not (tmp_path / "logs" / "second").exists())


def test_an_exchange_that_cannot_be_saved_leaves_no_hidden_queue(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        (tmp_path / "metadata").mkdir(exist_ok=True)
        (tmp_path / "metadata" / "exchanges").write_text("in the way")
        client.open_channel()
        client.send(delayed_exchange())
        _, value = client.receive()
        assert isinstance(value, Channel.Close | Connection.Close), describe(value)
        server.wait_until(lambda: not list(tmp_path.glob("logs/*/amq.delayed/*/*")))
        assert not server.call(lambda: list(server.server.broker.queues()))


def test_a_delayed_exchange_that_cannot_be_deleted_keeps_its_messages(tmp_path: Path) -> None:
    exchanges = tmp_path / "metadata" / "exchanges"
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        declare_delayed(client)
        client.publish(b"kept", "key", "x", properties=delayed(SOON_MS))
        client.expect_confirmed()
        exchanges.rename(exchanges.with_name("away"))
        exchanges.write_text("in the way")
        client.send(Exchange.Delete(exchange="x"))
        _, value = client.receive()
        assert isinstance(value, Channel.Close | Connection.Close), describe(value)
        exchanges.unlink()
        exchanges.with_name("away").rename(exchanges)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.call(Queue.Bind(0, "q", "x", "key"), Queue.BindOk)
        client.consume("q", no_ack=True)
        assert client.expect_delivery().body == b"kept"


@pytest.mark.parametrize("killed_after_seconds", [0.05, 0.2, 0.4])
def test_a_kill_while_delayed_messages_are_forwarded_loses_none(
    start_server: StartServer, killed_after_seconds: float
) -> None:
    """Some wait, some are on their way, some have arrived; a few may come twice, marked or not."""
    server = start_server()
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        declare_delayed(client)
        client.declare("q")
        client.call(Queue.Bind(0, "q", "x", "key"), Queue.BindOk)
        begun = time.monotonic()
        for at in range(300):
            client.publish(b"%d" % at, "key", "x", properties=delayed(1 + at * 2))
        client.expect_confirmed()
        time.sleep(max(begun + killed_after_seconds - time.monotonic(), 0))
        server.kill()
    server.restart()

    with connect(server.address) as client:
        client.open_channel()
        client.consume("q", no_ack=True)
        missing = {b"%d" % at for at in range(300)}
        while missing:
            missing.discard(client.expect_delivery().body)
