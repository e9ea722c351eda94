"""When the server writes checkpoints, who shares one, and what follows a failed one."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.protocol.errors import PreconditionFailed
from appendlog.files.filesystem import FileSystem
from offsets import CheckpointFailedError, QueueSnapshot, WrittenRound
from offsets.checkpoint_reading import read_checkpoint
from offsets.queue_checkpoint import decode_checkpoint
from tests.amqp_client import AmqpClient, connect
from tests.crash.messages import drain, flags, publish_confirmed
from tests.crash.power import Power
from tests.faults.checker import Warnings, check_nothing_is_missing
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer


def channel_to(server: ThreadedServer) -> AmqpClient:
    client = connect(server.address)
    client.open_channel(confirms=True)
    return client


def settle_one(client: AmqpClient, queue: str) -> None:
    client.publish(b"settled", queue)
    client.expect_confirmed()
    assert client.get(queue) is not None


class SlowStore:
    """Stands before the checkpoint store of a server: counts its rounds and holds them."""

    def __init__(self, server: ThreadedServer) -> None:
        self.rounds = 0
        self.at_once = 0
        self.most_at_once = 0
        self.gate = threading.Event()
        self.entered = threading.Event()
        self._lock = threading.Lock()
        store = server.server.checkpoints
        self._write_round = store.write_round
        server.call(lambda: setattr(store, "write_round", self.write_round))

    def write_round(
        self, states: Sequence[QueueSnapshot], *others: object, **named: object
    ) -> WrittenRound:
        with self._lock:
            self.rounds += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.entered.set()
        assert self.gate.wait(HANG_SECONDS)
        try:
            return self._write_round(states, *others, **named)  # type: ignore[arg-type]
        finally:
            with self._lock:
                self.at_once -= 1


@contextmanager
def slow_store(server: ThreadedServer) -> Iterator[SlowStore]:
    store = SlowStore(server)
    try:
        yield store
    finally:
        # Also when the test fails: the server could not stop.
        store.gate.set()


def test_a_round_skips_queues_that_have_not_changed(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        channel_to(server) as client,
    ):
        for name in ("a", "b", "c"):
            client.declare(name)
        settle_one(client, "b")
        server.run(server.server.checkpointer.write_now)
        moved = server.server.broker.queues_to_checkpoint
        assert server.call(lambda: list(moved)) == []
        settle_one(client, "c")
        assert server.call(lambda: [queue.name for queue in moved]) == ["c"]
        report = server.run(server.server.checkpointer.write_now)
        assert report.queues == 1
        report = server.run(server.server.checkpointer.write_now)
        assert (report.queues, report.written_bytes) == (0, 0)


def test_requests_during_a_round_share_the_next_round(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        slow_store(server) as store,
    ):
        with channel_to(server) as first:
            for number in range(10):
                first.declare(f"q{number}")
                first.publish(b"purged", f"q{number}")
                first.expect_confirmed()
            first.send(Queue.Purge(queue="q0"))
            assert store.entered.wait(HANG_SECONDS)
            others = [channel_to(server) for _ in range(1, 10)]
            for number, client in enumerate(others, 1):
                client.send(Queue.Purge(queue=f"q{number}"))
            queues = server.server.broker.vhosts["/"].queues
            server.wait_until(lambda: not any(len(queue.ready) for queue in queues.values()))
            store.gate.set()
            for client in (first, *others):
                assert client.expect(Queue.PurgeOk).message_count == 1
            for client in others:
                client.close()
        assert store.rounds == 2


def test_a_second_purge_waits_for_the_checkpoint_of_the_first(tmp_path: Path) -> None:
    """Its purge-ok says that the queue is empty, also after a crash."""
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        slow_store(server) as store,
        channel_to(server) as first,
        channel_to(server) as second,
    ):
        first.declare("q")
        first.publish(b"purged", "q")
        first.expect_confirmed()
        first.send(Queue.Purge(queue="q"))
        assert store.entered.wait(HANG_SECONDS)

        second.send(Queue.Purge(queue="q"))
        # By then the server has handled the second purge too.
        with channel_to(server) as witness:
            for _ in range(3):
                assert witness.ready_count("q") == 0
        waiting = server.call(
            lambda: [len(each._session._replies.waiting) for each in server.connections]  # type: ignore[union-attr]
        )
        assert waiting.count(1) == 2, "the second purge was answered before the first"
        store.gate.set()
        assert first.expect(Queue.PurgeOk).message_count == 1
        assert second.expect(Queue.PurgeOk).message_count == 0


def test_a_purge_is_tried_again_after_one_that_the_disk_refused(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        channel_to(server) as client,
    ):
        client.declare("q")
        client.publish(b"purged", "q")
        client.expect_confirmed()
        queue = server.server.broker.vhosts["/"].queues["q"]

        def fail_an_earlier_purge() -> None:
            assert sum(queue.purge()) > 0
            queue.purge_under_way = asyncio.get_running_loop().create_future()
            queue.purge_under_way.set_exception(PreconditionFailed("the disk refused"))

        server.call(fail_an_earlier_purge)
        assert client.call(Queue.Purge(queue="q"), Queue.PurgeOk).message_count == 0
        assert server.call(lambda: queue.checkpointed_floor) == 1


def test_a_purge_of_a_queue_that_never_had_a_message_waits_for_nothing(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        slow_store(server) as store,
        channel_to(server) as client,
    ):
        client.declare("q")
        assert client.call(Queue.Purge(queue="q"), Queue.PurgeOk).message_count == 0
        assert store.rounds == 0


def test_a_slow_disk_skips_rounds_and_never_writes_two_at_once(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0.01) as server,
        slow_store(server) as store,
        channel_to(server) as client,
    ):
        client.declare("q")
        settle_one(client, "q")
        assert store.entered.wait(HANG_SECONDS)
        for _ in range(20):
            settle_one(client, "q")
        # Several intervals.
        server.run(lambda: asyncio.sleep(0.05))
        assert store.rounds == 1
        store.gate.set()
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: queue.checkpointed_floor == 21)
        assert store.most_at_once == 1


def test_with_an_interval_of_0_only_purges_and_deletions_write_a_round(
    tmp_path: Path,
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        slow_store(server) as store,
    ):
        store.gate.set()
        with channel_to(server) as client:
            client.declare("q")
            settle_one(client, "q")
            client.declare("deleted")
            settle_one(client, "deleted")
            client.call(Queue.Delete(queue="deleted"), Queue.DeleteOk)
            server.run(lambda: server.server.vhost_changes.create("v"))
            server.run(lambda: server.server.vhost_changes.delete("v"))
            client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
            assert store.rounds == 0
            client.publish(b"purged", "q")
            client.expect_confirmed()
            client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
            assert store.rounds == 1
        server.stop()
        assert store.rounds == 2


def test_the_round_after_a_failed_one_contains_its_settled_messages_and_removed_queues(
    tmp_path: Path,
) -> None:
    power = Power(tmp_path)
    with (
        ThreadedServer(tmp_path, power, offset_checkpoint_interval_seconds=0) as server,
        channel_to(server) as client,
    ):
        for name in ("kept", "removed"):
            client.declare(name)
            settle_one(client, name)
        server.run(server.server.checkpointer.write_now)
        queues = server.server.broker.vhosts["/"].queues
        kept, removed = (queues[name].incarnation for name in ("kept", "removed"))
        settle_one(client, "kept")
        client.call(Queue.Delete(queue="removed"), Queue.DeleteOk)
        power.broken = "offsets/"
        with pytest.raises(CheckpointFailedError):
            server.run(server.server.checkpointer.write_now)
        assert server.server.broker.removed_incarnations == [removed]
        power.broken = None
        report = server.run(server.server.checkpointer.write_now)
        assert report.queues == 1
        assert server.server.broker.removed_incarnations == []
    recovery = read_checkpoint(tmp_path / "offsets", FileSystem())
    assert list(recovery.entries) == [kept.bytes]
    assert decode_checkpoint(recovery.entries[kept.bytes]).ack_floor == 2


def test_queues_that_are_declared_and_deleted_between_rounds_leave_nothing_in_memory(
    tmp_path: Path,
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        channel_to(server) as client,
    ):
        for _ in range(5):
            client.declare("q")
            settle_one(client, "q")
            client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        broker = server.server.broker
        server.wait_until(lambda: not list(broker.queues_to_checkpoint))
        assert broker.removed_incarnations == []


def test_a_checkpoint_on_demand_syncs_each_log_once(tmp_path: Path) -> None:
    """Transient messages wait for no disk; their settlement counts when they have reached it."""
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        channel_to(server) as client,
    ):
        client.declare("q")
        client.publish(b"transient", "q", properties=Basic.Properties(delivery_mode=1))
        client.expect_confirmed()
        assert client.get("q") is not None
        server.run(server.server.checkpointer.write_now)
        queue = server.server.broker.vhosts["/"].queues["q"]
        assert queue.checkpointed_floor == 1


def test_acks_of_unsynced_messages_are_in_the_checkpoint_of_the_next_round(
    tmp_path: Path,
) -> None:
    power = Power(tmp_path)
    with ThreadedServer(tmp_path, power, offset_checkpoint_interval_seconds=0) as server:
        with channel_to(server) as client:
            client.declare("q", arguments={"x-durability": "write"})
            publish_confirmed(client, "q", range(50))
            power.sync_gate.clear()
            assert len(drain(client, "q")) == 50
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: queue.settlement.ack_floor == 50)
        server.run(server.server.checkpointer.write_round)
        assert queue.checkpointed_floor == 0
        power.sync_gate.set()
        server.wait_until(lambda: not queue.store.is_flushing)
        server.run(server.server.checkpointer.write_round)
        power.unplug()
        server.abandon()
    power.lose()
    with ThreadedServer(tmp_path) as server, channel_to(server) as client:
        assert drain(client, "q") == []


def test_a_checkpoint_contains_no_message_that_a_power_cut_may_lose(tmp_path: Path) -> None:
    """Else the acks would outlive them, and hide those that get their offsets."""
    power = Power(tmp_path)
    with ThreadedServer(tmp_path, power, offset_checkpoint_interval_seconds=0) as server:
        with channel_to(server) as client:
            client.declare("q", arguments={"x-durability": "write"})
            power.sync_gate.clear()
            publish_confirmed(client, "q", range(10))
            assert len(drain(client, "q")) == 10
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: queue.settlement.ack_floor == 10)
        server.run(server.server.checkpointer.write_round)
        assert power.sync_waiting.wait(HANG_SECONDS)
        power.unplug()
        server.abandon()
    power.lose()
    with Warnings() as warnings, ThreadedServer(tmp_path) as server, channel_to(server) as client:
        check_nothing_is_missing(warnings)
        publish_confirmed(client, "q", range(20, 25))
        assert drain(client, "q") == flags(range(20, 25), redelivered=False)
