"""A disk without a free byte gets room again when its messages are settled."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Tx

from amqp_server.base.config import Limits
from amqp_server.upkeep.disk_reserve import RESERVE_BYTES, RESERVE_NAME, DiskReserve
from appendlog.files.filesystem import FileSystem
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.crash.budget_disk import BudgetDisk
from tests.crash.messages import publish_confirmed
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

DISK_BYTES = 24 << 20
SEGMENT_BYTES = 2 << 20
BODY_BYTES = 100_000
OFTEN = Limits(alarm_check_seconds=0.02)


@pytest.fixture
def disk(tmp_path: Path) -> BudgetDisk:
    """Return a disk with an empty data directory."""
    root = tmp_path / "data"
    root.mkdir()
    return BudgetDisk(root, DISK_BYTES)


def serve(disk: BudgetDisk, **settings: Any) -> ThreadedServer:  # noqa: ANN401 - as the server's
    """Return a server that looks at its disk all the time, and often writes checkpoints."""
    settings = {
        "offset_checkpoint_interval_seconds": 0.05,
        "disk_free_limit_bytes": 0,
        "segment_bytes": SEGMENT_BYTES,
    } | settings
    return ThreadedServer(disk.root, disk, OFTEN, sensor=disk, **settings)


def has_reserve(disk: BudgetDisk) -> bool:
    """Tell whether the reserve is there, in its whole size."""
    path = disk.root / RESERVE_NAME
    return path.exists() and path.stat().st_size == RESERVE_BYTES


def ack_all(client: AmqpClient, queue: str = "q") -> int:
    """Take and acknowledge everything that is in a queue; return how much that was."""
    count = 0
    while (message := client.get(queue, no_ack=False)) is not None:
        client.send(Basic.Ack(message.tag))
        count += 1
    return count


def publish_until_refused(client: AmqpClient) -> int:
    """Publish until the disk takes no more; return how many were confirmed."""
    count = 0
    while True:
        client.publish(b"x" * BODY_BYTES, "q", properties=PERSISTENT)
        _, answer = client.receive()
        if isinstance(answer, Basic.Nack):
            return count
        assert isinstance(answer, Basic.Ack)
        count += 1


def test_a_start_makes_the_reserve_and_a_later_one_keeps_it(disk: BudgetDisk) -> None:
    with serve(disk):
        assert has_reserve(disk)
    content = (disk.root / RESERVE_NAME).read_bytes()
    with serve(disk):
        assert (disk.root / RESERVE_NAME).read_bytes() == content


def test_a_reserve_that_is_too_small_is_made_again(disk: BudgetDisk) -> None:
    (disk.root / RESERVE_NAME).write_bytes(b"half of it")
    with serve(disk):
        assert has_reserve(disk)


def test_a_full_disk_whose_consumers_acknowledge_all_has_room_again(
    disk: BudgetDisk, caplog: pytest.LogCaptureFixture
) -> None:
    # No round may come while the disk fills up: it would give the reserve to what fills it.
    settings = {"offset_checkpoint_interval_seconds": 0}
    with caplog.at_level(logging.WARNING), serve(disk, **settings) as server:

        async def write_rounds() -> None:
            while disk.free <= DISK_BYTES / 4:
                await server.server.checkpointer.write_round()
                await asyncio.sleep(0.01)

        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q")
            # The first append to a recovered log removes what its failed append left.
            disk.is_seen = False
            published = publish_until_refused(client)
            assert published * BODY_BYTES > DISK_BYTES / 2
            disk.fill()
            assert has_reserve(disk)
            assert ack_all(client) == published
            server.run(write_rounds)
            disk.is_seen = True
            server.wait_until(lambda: has_reserve(disk))
            queue = server.server.broker.vhosts["/"].queues["q"]
            server.wait_until(lambda: not queue.store.is_failed)
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            publish_confirmed(client, "q", range(20), size=BODY_BYTES)
            assert ack_all(client) == 20
    assert "disk full, reserve released" in caplog.text
    assert "disk reserve restored" in caplog.text


def test_a_disk_filled_by_another_program_has_room_again(disk: BudgetDisk) -> None:
    """Nothing was refused, and the alarm is on: no log has to be taken into use again."""
    with serve(disk, disk_free_limit_bytes=1 << 20) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish_confirmed(client, "q", range(100), size=BODY_BYTES)
        disk.fill()
        server.wait_until(lambda: server.server.alarms.is_disk_low)
        assert ack_all(client) == 100
        server.wait_until(lambda: not server.server.alarms.is_disk_low)
        server.wait_until(lambda: has_reserve(disk))
        publish_confirmed(client, "q", range(10), size=BODY_BYTES)


def test_a_failed_log_of_one_segment_frees_its_space(disk: BudgetDisk) -> None:
    """Its segment has to be sealed to go; while the alarm is on nothing is appended to it."""
    settings = {"segment_bytes": 1 << 30, "disk_free_limit_bytes": 4 << 20}
    with serve(disk, **settings) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish_confirmed(client, "q", range(100), size=BODY_BYTES)
        # Faster than the alarm.
        disk.is_seen = False
        disk.fill()
        client.publish(b"x" * BODY_BYTES, "q", properties=PERSISTENT)
        client.expect(Basic.Nack)
        disk.is_seen = True
        server.wait_until(lambda: server.server.alarms.is_disk_low)
        queue = server.server.broker.vhosts["/"].queues["q"]
        assert queue.store.is_failed
        assert ack_all(client) == 100
        server.wait_until(lambda: not queue.store.is_failed and disk.free > 90 * BODY_BYTES)
        server.wait_until(lambda: has_reserve(disk))


def test_a_round_without_settled_messages_keeps_the_reserve(
    disk: BudgetDisk,
) -> None:
    """Appends would fill what it gives up, and no acknowledgement could make room any more."""
    with (
        serve(disk, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q")
        publish_confirmed(client, "q", range(100), size=BODY_BYTES)
        disk.is_seen = False
        disk.fill()
        for _ in range(2):
            assert server.run(server.server.checkpointer.write_round).written_bytes == 0
        assert has_reserve(disk)
        assert ack_all(client) == 100
        assert server.run(server.server.checkpointer.write_round).queues == 1
        assert not has_reserve(disk)


def test_the_reserve_is_not_made_on_an_almost_full_disk(disk: BudgetDisk) -> None:
    disk.size_bytes = 2 * RESERVE_BYTES - 1
    with serve(disk) as server:
        assert not has_reserve(disk)
        disk.size_bytes = 4 * RESERVE_BYTES
        server.wait_until(lambda: has_reserve(disk))


def test_a_start_on_a_full_disk_recovers_and_makes_room(disk: BudgetDisk) -> None:
    with serve(disk) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish_confirmed(client, "q", range(100), size=BODY_BYTES)
    disk.fill()
    with serve(disk) as server, connect(server.address) as client:
        client.open_channel()
        assert not has_reserve(disk)
        assert ack_all(client) == 100
        server.wait_until(lambda: has_reserve(disk))


def test_a_stop_on_a_full_disk_is_a_clean_one(disk: BudgetDisk) -> None:
    with serve(disk, offset_checkpoint_interval_seconds=0) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q")
            publish_confirmed(client, "q", range(10))
            assert ack_all(client) == 10
        disk.fill()
    assert not has_reserve(disk)
    with serve(disk) as server, connect(server.address) as client:
        client.open_channel()
        assert ack_all(client) == 0


def test_definitions_and_commits_use_the_reserve(disk: BudgetDisk) -> None:
    with (
        serve(disk, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q")
        disk.fill()
        client.declare("another")
        assert not has_reserve(disk)
        disk.size_bytes += DISK_BYTES
        server.wait_until(lambda: has_reserve(disk))
        disk.fill()
        for channel in (2, 3):
            client.open_channel(channel)
            client.call(Tx.Select(), Tx.SelectOk, channel)
            client.publish(b"in a transaction", "q", channel=channel)
        client.send(Tx.Commit(), 2)
        assert "PRECONDITION_FAILED" in client.expect_channel_close(406, 2).reply_text
        assert not has_reserve(disk)
        client.call(Tx.Commit(), Tx.CommitOk, 3)


def test_another_disk_error_does_not_use_the_reserve(tmp_path: Path) -> None:
    filesystem = FileSystem()
    reserve = DiskReserve(tmp_path, filesystem, 0)
    reserve.restore()

    def fail(number: int) -> None:
        raise OSError(number, "refused")

    with pytest.raises(OSError, match="refused"):
        reserve.run(fail, errno.EIO)
    assert (tmp_path / RESERVE_NAME).exists()
    with pytest.raises(OSError, match="refused"):
        reserve.run(fail, errno.EDQUOT)
    assert not (tmp_path / RESERVE_NAME).exists()


def test_a_reserve_that_cannot_be_made_leaves_no_file_and_is_retried_less_often(
    tmp_path: Path,
) -> None:
    filesystem = FaultyFileSystem(tmp_path, 1, errno.EDQUOT, failing_operations=3)
    reserve = DiskReserve(tmp_path, filesystem, 0)
    free_bytes = 4 * RESERVE_BYTES
    tries = []
    for look in range(10):
        if reserve.is_due(free_bytes):
            reserve.restore()
            tries.append(look)
    assert tries == [0, 2, 6]
    assert (tmp_path / RESERVE_NAME).stat().st_size == RESERVE_BYTES
    assert not reserve.is_due(free_bytes)
