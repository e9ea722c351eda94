"""What each durability of a queue keeps through SIGKILL and through a power cut."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pamqp.commands import Queue

from amqp_server.base.config import Durability
from appendlog import LogReader
from tests.amqp_client import connect
from tests.crash.messages import channel_to, drain, publish_confirmed
from tests.crash.power import Power
from tests.faults.checker import Warnings, check_nothing_is_missing
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

LEVELS = ["fsync", "write", "none"]


def bodies(taken: list[tuple[bytes, bool]]) -> list[int]:
    """Return the numbers of messages."""
    return [int(body) for body, _ in taken]


def test_a_confirm_means_the_durability_of_its_queue(power: Power) -> None:
    """While the disk takes nothing, only the queue that promises the disk waits for it."""
    with ThreadedServer(power.root, power) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.open_channel(2, confirms=True)
        for level in LEVELS:
            client.declare(level, arguments={"x-durability": level})
            publish_confirmed(client, level, range(1))
        queues = server.server.broker.vhosts["/"].queues
        assert [queues[level].durability for level in LEVELS] == list(Durability)
        power.sync_gate.clear()
        publish_confirmed(client, "none", range(1, 10))
        publish_confirmed(client, "write", range(1, 10))
        client.publish(b"1", "fsync", channel=2)
        assert power.sync_waiting.wait(HANG_SECONDS)
        publish_confirmed(client, "none", range(10, 20))
        power.sync_gate.set()
        client.expect_confirmed(2)


def test_a_queue_without_the_argument_has_the_durability_of_the_server(power: Power) -> None:
    with (
        ThreadedServer(power.root, power, durability=Durability.WRITE) as server,
        connect(server.address) as client,
    ):
        client.open_channel()
        client.declare("plain")
        client.declare("safe", arguments={"x-durability": "fsync"})
        client.call(Queue.Declare(queue="transient"), Queue.DeclareOk)
        queues = server.server.broker.vhosts["/"].queues
        found = {name: queue.durability for name, queue in queues.items()}
        assert found == {"plain": "write", "safe": "fsync", "transient": None}


def test_a_queue_that_is_declared_again_must_have_the_same_durability(tmp_path: Path) -> None:
    with RunningServer(tmp_path) as server:
        server.start()
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q", arguments={"x-durability": "write"})
            server.kill()
        server.restart()
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q", arguments={"x-durability": "write"})
            client.send(Queue.Declare(queue="q", durable=True, arguments={"x-durability": "none"}))
            assert client.expect_channel_close(406).reply_text == (
                "PRECONDITION_FAILED - inequivalent arg 'x-durability' for queue 'q' in vhost '/': "
                "received 'none' but current is 'write'"
            )


def test_written_messages_survive_sigkill(tmp_path: Path) -> None:
    with RunningServer(tmp_path, "--offset-checkpoint-interval", "0") as server:
        server.start()
        with channel_to(server) as client:
            for level in ("fsync", "write"):
                client.declare(level, arguments={"x-durability": level})
                publish_confirmed(client, level, range(300))
        server.kill()
        server.restart()
        with channel_to(server) as client:
            for level in ("fsync", "write"):
                assert bodies(drain(client, level)) == list(range(300))


@pytest.mark.parametrize("seed", [None, *range(4)])
def test_a_power_cut_loses_only_the_last_messages(power: Power, seed: int | None) -> None:
    """Whatever was shown to other processes is there, and its offsets are what they were."""
    with ThreadedServer(power.root, power, offset_checkpoint_interval_seconds=0) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            for level in LEVELS:
                client.declare(level, arguments={"x-durability": level})
                publish_confirmed(client, level, range(100))
            queues = server.server.broker.vhosts["/"].queues
            for _ in range(10):
                for level in LEVELS:
                    assert client.get(level) is not None
            server.wait_until(lambda: all(queues[x].settlement.ack_floor == 10 for x in LEVELS))
            for _ in range(2):
                # The first asks for the syncs that the second may speak of.
                server.run(server.server.checkpointer.write_round)
                server.wait_until(lambda: all(not queues[x].store.is_flushing for x in LEVELS))
            for level in LEVELS:
                publish_confirmed(client, level, range(100, 200))
                drain(client, level)
            server.wait_until(lambda: all(queues[x].settlement.ack_floor == 200 for x in LEVELS))
            server.run(server.server.checkpointer.write_round)
            shown = {level: shown_of(power.root, level) for level in LEVELS}
            power.unplug()
        server.abandon()
    power.lose(None if seed is None else random.Random(seed))
    with (
        Warnings() as warnings,
        ThreadedServer(power.root) as server,
        connect(server.address) as client,
    ):
        # Checkpoints contain synced messages only.
        check_nothing_is_missing(warnings)
        client.open_channel(confirms=True)
        queues = server.server.broker.vhosts["/"].queues
        for level in LEVELS:
            store = queues[level].store
            assert store.recovery_point >= len(shown[level])
            assert queues[level].settlement.ack_floor <= store.recovery_point
            # Of what was not synced the cut left some chunks and no others.
            again = shown_of(power.root, level, skip_damage=True)
            assert shown[level].items() <= again.items()
            left = bodies(drain(client, level))
            assert left == sorted(set(left))
            assert set(left) <= set(range(10, 200))
            # Messages behind an ack in a checkpoint are still there, or were new.
            publish_confirmed(client, level, range(500, 520))
            assert bodies(drain(client, level)) == list(range(500, 520))
        assert len(shown["fsync"]) == 200


def shown_of(root: Path, queue: str, *, skip_damage: bool = False) -> dict[int, bytes]:
    """Return what another process sees of a queue, by offset."""
    shown: dict[int, bytes] = {}
    for directory in root.glob(f"logs/*/{queue}/*"):
        for batch in LogReader(directory, skip_damage=skip_damage).read():
            shown.update(zip(batch.offsets, batch.messages, strict=True))
    return shown
