"""Virtual hosts have queues and exchanges of their own."""

import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Connection, Exchange, Queue

from amqp_server.control.client import ControlError, ask
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

CAPABILITIES: dict[str, Any] = {
    "authentication_failure_close": True,
    "consumer_cancel_notify": True,
}
PREDECLARED = ("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match")


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


class AnyOpen(Connection.Open):
    """Takes any name; pamqp's own holds it to the 127 characters of the specification's `path`."""

    def validate(self) -> None:
        """Accept everything."""


def add(server: RunningServer, name: str) -> None:
    ask(server.storage_path, "vhosts.add", name=name)


def delete(server: RunningServer, name: str) -> None:
    ask(server.storage_path, "vhosts.delete", name=name)


def names(server: RunningServer) -> list[str]:
    return [vhost["name"] for vhost in ask(server.storage_path, "vhosts.list")]


def open_vhost(server: RunningServer, vhost: str) -> AmqpClient:
    client = AmqpClient(server.address)
    tune = client.login(capabilities=CAPABILITIES)
    client.send(Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
    client.call(AnyOpen(virtual_host=vhost), Connection.OpenOk, 0)
    client.open_channel(confirms=True)
    return client


def fill(client: AmqpClient, body: bytes) -> None:
    """Make an exchange, a queue and a binding, always of the same names, with one message."""
    client.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
    client.declare("q")
    client.call(Queue.Bind(queue="q", exchange="x", routing_key="k"), Queue.BindOk)
    client.publish(body, "k", exchange="x", properties=PERSISTENT)
    client.expect_confirmed()


def expect_unknown(server: RunningServer, vhost: str) -> None:
    with AmqpClient(server.address) as client:
        tune = client.login(capabilities=CAPABILITIES)
        client.send(Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
        close = client.call(Connection.Open(virtual_host=vhost), Connection.Close, 0)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 40)
    assert close.reply_text == f"NOT_ALLOWED - vhost {vhost} not found"


def test_a_new_virtual_host_has_only_the_predeclared_exchanges(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        fill(client, b"of the default one")
    add(server, "second")
    with open_vhost(server, "second") as client:
        for exchange in PREDECLARED:
            client.call(Exchange.Declare(exchange=exchange, passive=True), Exchange.DeclareOk)
        client.publish(b"x", "q", mandatory=True)
        assert client.expect_return().body == b"x"


def test_equal_names_in_two_virtual_hosts_are_independent(server: RunningServer) -> None:
    vhosts = ["/", "second"]
    add(server, "second")
    clients = [open_vhost(server, vhost) for vhost in vhosts]
    for client, vhost in zip(clients, vhosts, strict=True):
        fill(client, vhost.encode())
        client.publish(b"by name " + vhost.encode(), "q")
        client.expect_confirmed()
        client.declare("mine", durable=False, exclusive=True)
    for client, vhost in zip(clients, vhosts, strict=True):
        for body in (vhost.encode(), b"by name " + vhost.encode()):
            message = client.get("q")
            assert message is not None
            assert message.body == body
        assert client.get("q") is None
    clients[0].call(Queue.Delete(queue="q"), Queue.DeleteOk)
    assert clients[1].ready_count("q") == 0
    for client in clients:
        client.socket.close()


def test_virtual_hosts_survive_a_kill_with_their_content(server: RunningServer) -> None:
    add(server, "second")
    with open_vhost(server, "second") as client:
        fill(client, b"kept")
    server.kill()
    server.restart()
    assert names(server) == ["/", "second"]
    with open_vhost(server, "second") as client:
        message = client.get("q")
        assert message is not None
        assert message.body == b"kept"
        client.publish(b"routed", "k", exchange="x")
        client.expect_confirmed()
        assert client.ready_count("q") == 1


def test_deleting_a_virtual_host_cancels_consumers_and_closes_connections_as_rabbitmq_does(
    server: RunningServer,
) -> None:
    add(server, "second")
    with open_vhost(server, "second") as client, open_vhost(server, "/") as other:
        client.declare("q")
        client.consume("q")
        delete(server, "second")
        client.expect(Basic.Cancel)
        close = client.await_connection_close()
        assert (close.reply_code, close.class_id, close.method_id) == (320, 0, 0)
        assert close.reply_text == "CONNECTION_FORCED - vhost 'second' is deleted"
        other.declare("still works")
    expect_unknown(server, "second")


def test_a_virtual_host_that_is_added_again_at_once_is_empty(server: RunningServer) -> None:
    for number in range(5):
        add(server, "second")
        with open_vhost(server, "second") as client:
            client.call(Exchange.Declare(exchange="amq.topic", passive=True), Exchange.DeclareOk)
            client.publish(b"x", "q", mandatory=True)
            client.expect_return()
            client.expect_confirmed()
            fill(client, str(number).encode())
            delete(server, "second")
    add(server, "second")
    server.kill()
    server.restart()
    with open_vhost(server, "second") as client:
        client.declare("q")
        assert client.ready_count("q") == 0


def test_a_deleted_virtual_host_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server:
        ask(tmp_path, "vhosts.add", name="second")
        with AmqpClient(server.address) as client:
            client.open(vhost="second")
            client.open_channel(confirms=True)
            fill(client, b"gone")
        assert (tmp_path / "logs" / "second").is_dir()
        ask(tmp_path, "vhosts.delete", name="second")
        # Its document goes last: until then it says that the rest is deleted.
        document = tmp_path / "metadata" / "vhosts" / "%" / "second.json"
        server.wait_until(lambda: not document.exists())
        assert not [path for path in tmp_path.rglob("*") if "second" in path.name]


def test_deleting_a_virtual_host_removes_logs_without_a_queue(tmp_path: Path) -> None:
    """As a queue leaves them that could not be brought back."""
    with ThreadedServer(tmp_path) as server:
        ask(tmp_path, "vhosts.add", name="second")
        with AmqpClient(server.address) as client:
            client.open(vhost="second")
            client.open_channel(confirms=True)
            fill(client, b"gone")
        (log,) = (tmp_path / "logs" / "second" / "q").iterdir()
        shutil.copytree(log, log.with_name(str(uuid.uuid4())))
        ask(tmp_path, "vhosts.delete", name="second")
        document = tmp_path / "metadata" / "vhosts" / "%" / "second.json"
        server.wait_until(lambda: not document.exists())
        assert not (tmp_path / "logs" / "second").exists()


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "CON", "Case", "case", "nö ✓", ".", "%2F", "\n", "n" * 255, "é" * 127]
)
def test_the_name_of_a_virtual_host_may_be_any_text_of_255_bytes(
    server: RunningServer, name: str
) -> None:
    add(server, name)
    with open_vhost(server, name) as client:
        fill(client, b"kept")
    server.kill()
    server.restart()
    assert names(server) == sorted(["/", name])
    with open_vhost(server, name) as client:
        assert client.ready_count("q") == 1
    delete(server, name)
    assert names(server) == ["/"]
    assert not [path for path in server.storage_path.parent.iterdir() if path.name == "x"]


@pytest.mark.parametrize("name", ["", "n" * 256, "é" * 128])
def test_other_names_of_virtual_hosts_are_refused(server: RunningServer, name: str) -> None:
    with pytest.raises(ControlError, match="1 to 255 bytes"):
        add(server, name)


def test_the_default_virtual_host_may_be_deleted_for_good(server: RunningServer) -> None:
    with open_vhost(server, "/") as client:
        fill(client, b"gone")
    delete(server, "/")
    expect_unknown(server, "/")
    server.kill()
    server.restart()
    assert names(server) == []
    expect_unknown(server, "/")
    add(server, "/")
    server.kill()
    server.restart()
    assert names(server) == ["/"]
    with open_vhost(server, "/") as client:
        client.declare("q")
        assert client.ready_count("q") == 0


def test_a_directory_without_virtual_hosts_belongs_to_the_default_one(
    start_server: StartServer,
) -> None:
    server = start_server()
    with open_vhost(server, "/") as client:
        fill(client, b"kept")
    server.kill()
    (server.storage_path / "metadata" / "vhosts" / "%" / "%2f.json").unlink()
    (server.storage_path / "metadata" / "vhosts" / "%").rmdir()
    (server.storage_path / "metadata" / "vhosts").rmdir()
    # In one of today it would have been lost.
    (server.storage_path / "FORMAT").write_text("1\n")
    server.restart()
    with open_vhost(server, "/") as client:
        assert client.ready_count("q") == 1


def test_a_virtual_host_with_an_unreadable_document_keeps_its_content(
    server: RunningServer,
) -> None:
    add(server, "second")
    with open_vhost(server, "second") as client:
        fill(client, b"kept")
    server.kill()
    server.may_fail = True
    (server.storage_path / "metadata" / "vhosts" / "%" / "second.json").write_text("{")
    server.restart()
    with open_vhost(server, "second") as client:
        assert client.ready_count("q") == 1


def test_the_number_of_virtual_hosts_is_limited(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path, vhosts_max=2):
        ask(tmp_path, "vhosts.add", name="second")
        with pytest.raises(ControlError, match=r"limit \(2\) is reached"):
            ask(tmp_path, "vhosts.add", name="third")


def test_a_virtual_host_that_the_disk_refuses_does_not_exist(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server:
        vhosts = tmp_path / "metadata" / "vhosts"
        vhosts.rename(vhosts.with_name("away"))
        vhosts.write_text("in the way")
        with pytest.raises(ControlError, match="vhosts"):
            ask(tmp_path, "vhosts.add", name="second")
        with pytest.raises(ControlError, match="vhosts"):
            ask(tmp_path, "vhosts.delete", name="/")
        vhosts.unlink()
        vhosts.with_name("away").rename(vhosts)
        assert [vhost["name"] for vhost in ask(tmp_path, "vhosts.list")] == ["/"]
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q")


def test_the_list_of_virtual_hosts_counts_their_content(server: RunningServer) -> None:
    usual = {"tracing": False, "damaged_queues": 0, "damaged_exchanges": 0}
    add(server, "second")
    with open_vhost(server, "second") as client:
        fill(client, b"one")
        found = ask(server.storage_path, "vhosts.list")
        assert found == [
            {"name": "/", "connections": 0, "queues": 0, "messages_ready": 0, **usual},
            {"name": "second", "connections": 1, "queues": 1, "messages_ready": 1, **usual},
        ]
        status = ask(server.storage_path, "status")
        assert (status["connections"], status["channels"], status["queues"]) == (1, 1, 1)
