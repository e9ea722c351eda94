"""Purged and deleted messages do not return, whenever the server ends."""

import asyncio
import random
import threading
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient, connect
from tests.conformance.polling import eventually
from tests.conftest import StartServer
from tests.crash.full_disk import FullDisk
from tests.crash.messages import channel_to, drain, flags, publish_confirmed
from tests.crash.moving import serve
from tests.crash.power import Power, powered
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

OPERATIONS_MAX = 100
COUNT = 10


def prepare(client: AmqpClient) -> None:
    """Fill two queues; the first two messages of `purged` stay unacked."""
    client.open_channel(confirms=True)
    for name in ("purged", "kept"):
        client.declare(name)
        for number in range(COUNT):
            client.publish(b"%d" % number, name)
            client.expect_confirmed()
    for _ in range(2):
        assert client.get("purged", no_ack=False) is not None
    client.publish(b"transient", "purged", properties=Basic.Properties(delivery_mode=1))
    client.expect_confirmed()


def found_after(root: Path) -> dict[str, list[bytes]]:
    with serve(Power(root)) as server, connect(server.address) as client:
        client.open_channel()
        return {name: [body for body, _ in drain(client, name)] for name in ("purged", "kept")}


ALL = [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("ending", ["killed", "power", "0"])
def test_a_purge_holds_after_purge_ok_whenever_the_disk_fails(tmp_path: Path, ending: str) -> None:
    answered = refused = 0
    for step in range(OPERATIONS_MAX):
        power = powered(tmp_path / str(step))
        with serve(power) as server:
            with connect(server.address) as client:
                prepare(client)
                power.fail_at = len(power.operations) + step
                client.send(Queue.Purge(queue="purged"))
                _, answer = client.receive()
                is_over = len(power.operations) <= power.fail_at
                power.unplug()
            server.abandon()
        if ending != "killed":
            power.lose(None if ending == "power" else random.Random(step))
        found = found_after(power.root)
        assert found["kept"] == ALL
        assert found["purged"][:2] == ALL[:2]
        if isinstance(answer, Queue.PurgeOk):
            answered += 1
            assert found["purged"] == ALL[:2]
        else:
            # What was refused may have reached the disk all the same.
            assert isinstance(answer, Channel.Close), answer
            assert answer.reply_code == 406
            refused += 1
            assert found["purged"] in (ALL, ALL[:2])
        if is_over:
            assert answered
            assert refused
            return
    raise AssertionError("the purge does not end")


def test_a_purge_of_a_queue_that_is_being_saved_waits_for_it(tmp_path: Path) -> None:
    """It found nothing on the disk to be settled, and its messages came after its ok."""
    power = powered(tmp_path / "data")
    with serve(power) as server:
        with connect(server.address) as first, connect(server.address) as second:
            first.open_channel()
            second.open_channel()
            gate, is_saving = held_definitions(server)
            first.send(Queue.Declare(queue="q", durable=True))
            assert is_saving.wait(HANG_SECONDS)
            for number in range(COUNT):
                second.publish(b"%d" % number, "q")
            second.send(Queue.Purge(queue="q"))
            queue = server.server.broker.vhosts["/"].queues["q"]
            server.wait_until(lambda: queue.settlement.ack_floor == COUNT)
            server.call(gate.set)
            assert second.expect(Queue.PurgeOk).message_count == COUNT
            power.unplug()
        server.abandon()
    power.lose()
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel()
        assert drain(client, "q") == []


def held_definitions(server: ThreadedServer) -> tuple[asyncio.Event, threading.Event]:
    """Hold writes of definitions; return the events of their release and of a waiting write."""
    definitions = server.server.broker.definitions
    save_queue = definitions.save_queue
    gate, is_saving = asyncio.Event(), threading.Event()

    async def save_later(queue: object) -> None:
        is_saving.set()
        await gate.wait()
        await save_queue(queue)  # type: ignore[arg-type]

    server.call(lambda: setattr(definitions, "save_queue", save_later))
    return gate, is_saving


def test_a_purge_of_a_queue_with_a_failed_log_is_refused(tmp_path: Path) -> None:
    power = powered(tmp_path / "data")
    with serve(power) as server:
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q")
            power.broken = "/q/"
            for number in range(COUNT):
                client.publish(b"%d" % number, "q")
            client.send(Queue.Purge(queue="q"))
            assert "may come back" in client.expect_channel_close(406).reply_text
        server.abandon()


CHECKPOINTS = "/offsets/"
"""Where the disk is full: all else can be written."""


@pytest.fixture
def disk(tmp_path: Path) -> FullDisk:
    (tmp_path / "data").mkdir()
    return FullDisk(tmp_path / "data")


@pytest.mark.parametrize("again", [False, True], ids=["refused", "refused, and sent again"])
def test_a_purge_without_a_checkpoint_is_done_and_refused_until_one_is_written(
    disk: FullDisk, again: bool
) -> None:
    with ThreadedServer(disk.root, disk, offset_checkpoint_interval_seconds=0) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q")
            publish_confirmed(client, "q", range(COUNT))
            disk.full = CHECKPOINTS
            client.send(Queue.Purge(queue="q"))
            reply = client.expect_channel_close(406).reply_text
            assert "queue 'q' in vhost '/' is purged, but" in reply
            client.open_channel()
            assert client.ready_count("q") == 0
            if again:
                disk.full = None
                assert client.call(Queue.Purge(queue="q"), Queue.PurgeOk).message_count == 0
                # Nothing that comes later, such as the end of the connection, may help.
                disk.full = CHECKPOINTS
        server.abandon()
    disk.full = None
    with ThreadedServer(disk.root, disk) as server, connect(server.address) as client:
        client.open_channel()
        assert [body for body, _ in drain(client, "q")] == ([] if again else ALL)


def test_a_delete_needs_no_checkpoint(disk: FullDisk) -> None:
    with ThreadedServer(disk.root, disk, offset_checkpoint_interval_seconds=0) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q")
            publish_confirmed(client, "q", range(COUNT))
            disk.full = CHECKPOINTS
            assert client.call(Queue.Delete(queue="q"), Queue.DeleteOk).message_count == COUNT
        server.abandon()
    disk.full = None
    with ThreadedServer(disk.root, disk) as server, connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", passive=True))
        client.expect_channel_close(404)


@pytest.mark.parametrize("how", ["delete", "delete with what is unacked", "no consumer left"])
def test_a_deleted_queue_stays_deleted_after_a_kill_and_no_other_is(
    start_server: StartServer, how: str
) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with channel_to(server) as client:
        client.declare("kept")
        client.call(
            Queue.Declare(queue="gone", durable=True, auto_delete=how == "no consumer left"),
            Queue.DeclareOk,
        )
        publish_confirmed(client, "kept", range(COUNT))
        publish_confirmed(client, "gone", range(COUNT))
        if how == "delete with what is unacked":
            assert client.get("gone", no_ack=False) is not None
        if how == "no consumer left":
            client.call(Basic.Consume(queue="gone", consumer_tag="c"), Basic.ConsumeOk)
            for _ in range(COUNT):
                client.expect_delivery()
            client.call(Basic.Cancel(consumer_tag="c"), Basic.CancelOk)
        else:
            client.call(Queue.Delete(queue="gone"), Queue.DeleteOk)
        # Declared again, it is another queue; its declare-ok follows the removal of the first.
        client.declare("gone")
        publish_confirmed(client, "gone", range(100, 102))
        server.kill()
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "kept") == flags(range(COUNT), redelivered=True)
        assert drain(client, "gone") == flags(range(100, 102), redelivered=True)


def test_an_expired_queue_stays_deleted_after_a_kill(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with channel_to(server) as client:
        client.declare("kept")
        publish_confirmed(client, "kept", range(COUNT))
        logs = server.storage_path / "logs"
        gone = server.storage_path / "metadata" / "queues" / "%2f" / "gone.json"
        # It stays while it has a consumer.
        with channel_to(server) as user:
            user.declare("gone", arguments={"x-expires": 500})
            user.consume("gone", prefetch=1)
            publish_confirmed(client, "gone", range(COUNT))
            assert (logs / "%2f" / "gone").is_dir()
        eventually(lambda: not gone.exists())
        server.kill()
    server.restart()
    assert not (logs / "%2f" / "gone").exists()
    with channel_to(server) as client:
        assert drain(client, "kept") == flags(range(COUNT), redelivered=True)
        client.send(Queue.Declare(queue="gone", passive=True))
        client.expect_channel_close(404)
