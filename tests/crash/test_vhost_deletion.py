"""After a crash during its deletion a virtual host is there as a whole, or not at all."""

import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.broker.vhost_changes import VhostChanges
from amqp_server.control.client import ControlError, UnreachableError, ask
from metadata.document_files import DocumentFiles
from metadata.store import MetadataStore
from tests.amqp_client import PERSISTENT, AmqpClient, ConnectionLostError
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

QUEUES = ("q0", "q1", "q2")
VHOST = "a/b"


def open_vhost(address: tuple[str, int]) -> AmqpClient:
    client = AmqpClient(address)
    client.open(vhost=VHOST)
    client.open_channel(confirms=True)
    return client


def fill(address: tuple[str, int]) -> None:
    """Make an exchange and queues that it reaches, with one message each."""
    with open_vhost(address) as client:
        client.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
        for queue in QUEUES:
            client.declare(queue)
            client.call(Queue.Bind(queue=queue, exchange="x", routing_key=queue), Queue.BindOk)
            client.publish(b"kept", queue, properties=PERSISTENT)
            client.expect_confirmed()


def is_there(storage_path: Path) -> bool:
    return VHOST in [vhost["name"] for vhost in ask(storage_path, "vhosts.list")]


def expect_whole(address: tuple[str, int]) -> None:
    with open_vhost(address) as client:
        for queue in QUEUES:
            assert client.ready_count(queue) == 1
            client.publish(b"more", queue, exchange="x")
            client.expect_confirmed()
            assert client.ready_count(queue) == 2


def expect_nothing_left(storage_path: Path, address: tuple[str, int]) -> None:
    assert not list(storage_path.glob("metadata/*/a%2fb/*"))
    assert not (storage_path / "metadata" / "vhosts" / "%" / "a%2fb.json").exists()
    assert not list(storage_path.glob("logs/a%2fb*"))
    ask(storage_path, "vhosts.add", name=VHOST)
    with open_vhost(address) as client:
        client.call(Exchange.Declare(exchange="x"), Exchange.DeclareOk)
        for queue in QUEUES:
            client.declare(queue, durable=False)
            assert client.ready_count(queue) == 0
            client.publish(b"not routed", queue, exchange="x", mandatory=True)
            client.expect_return()
            assert isinstance(client.receive()[1], Basic.Ack)


def stop_at(server: ThreadedServer, operation: int) -> FaultyFileSystem:
    """Let the disk of the definitions stand still at its Nth operation from now on."""
    filesystem = FaultyFileSystem(server.server.config.storage_path, operation, StoppedError())
    files = DocumentFiles(filesystem)

    def replace() -> None:
        store: MetadataStore = server.server.metadata
        store._files = files
        store._rounds._files = files

    server.call(replace)
    return filesystem


def test_a_stop_at_any_operation_leaves_the_whole_virtual_host_or_none(tmp_path: Path) -> None:
    outcomes = []
    for operation in range(1000):
        path = tmp_path / str(operation)
        with ThreadedServer(path) as server:
            ask(path, "vhosts.add", name=VHOST)
            fill(server.address)
            filesystem = stop_at(server, operation)
            changes: VhostChanges = server.server.vhost_changes
            with suppress(StoppedError, ExceptionGroup):
                server.run(lambda changes=changes: changes.delete(VHOST))  # type: ignore[misc]
            server.abandon()
        with ThreadedServer(path) as server:
            outcomes.append(is_there(path))
            if outcomes[-1]:
                expect_whole(server.address)
            else:
                expect_nothing_left(path, server.address)
        if len(filesystem.operations) <= operation:
            break
    assert operation > 5
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {True, False}


def test_a_kill_at_any_time_leaves_the_whole_virtual_host_or_none(server: RunningServer) -> None:
    chance = random.Random(7)
    for _ in range(12):
        ask(server.storage_path, "vhosts.add", name=VHOST)
        fill(server.address)
        deleting = threading.Thread(target=delete, args=(server.storage_path,))
        deleting.start()
        time.sleep(chance.random() * 0.02)
        server.kill()
        deleting.join()
        server.restart()
        if is_there(server.storage_path):
            expect_whole(server.address)
        else:
            expect_nothing_left(server.storage_path, server.address)
        ask(server.storage_path, "vhosts.delete", name=VHOST)


def delete(storage_path: Path) -> None:
    with suppress(UnreachableError, ControlError):
        ask(storage_path, "vhosts.delete", name=VHOST)


def test_a_virtual_host_that_is_deleted_repeatedly_under_its_clients_leaves_nothing(
    server: RunningServer,
) -> None:
    ask(server.storage_path, "vhosts.add", name=VHOST)
    is_over = threading.Event()
    workers = [threading.Thread(target=work, args=(server, number, is_over)) for number in range(3)]
    for worker in workers:
        worker.start()
    chance = random.Random(7)
    for _ in range(12):
        time.sleep(chance.random() * 0.1)
        ask(server.storage_path, "vhosts.delete", name=VHOST)
        ask(server.storage_path, "vhosts.add", name=VHOST)
    ask(server.storage_path, "vhosts.delete", name=VHOST)
    is_over.set()
    for worker in workers:
        worker.join()
    server.kill()
    server.restart()
    expect_nothing_left(server.storage_path, server.address)


def work(server: RunningServer, seed: int, is_over: threading.Event) -> None:
    """Declare, publish and delete in the virtual host, as often as it is there."""
    chance = random.Random(seed)
    while not is_over.is_set():
        client = AmqpClient(server.address)
        # Closed by the server at any point, also before it is open.
        with client, suppress(AssertionError, ConnectionLostError):
            client.open(vhost=VHOST)
            client.open_channel(confirms=True)
            while True:
                queue = chance.choice(QUEUES)
                client.declare(queue)
                client.publish(b"x" * chance.choice((10, 200_000)), queue)
                client.expect_confirmed()
                if chance.random() < 0.2:
                    client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
