"""Compaction frees the disk space around a few old messages."""

from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.base.limits import MIB
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

BODY = bytes(10_000)
SEGMENT_BYTES = 256 * 1024
COUNT = 200
KEPT = (0, 60, 150)
ARGUMENTS = {"x-segment-max-bytes": SEGMENT_BYTES}


def log_files(path: Path) -> list[Path]:
    return sorted([*path.glob("logs/**/*.log"), *path.glob("spill/**/*.log")])


def log_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in log_files(path))


def settle_most(
    client: AmqpClient,
    server: ThreadedServer,
    *,
    durable: bool = True,
    arguments: dict[str, int] | None = None,
) -> None:
    """Publish `COUNT` messages and acknowledge all but those of `KEPT`."""
    queue = "q"
    client.open_channel(confirms=True)
    client.declare(queue, durable=durable, arguments=ARGUMENTS | (arguments or {}))
    for number in range(COUNT):
        client.publish(b"%04d" % number + BODY, queue)
    client.expect_confirmed()
    for number in range(COUNT):
        message = client.get(queue, no_ack=False)
        assert message is not None
        if number not in KEPT:
            client.send(Basic.Ack(message.tag))
    settlement = server.server.broker.vhosts["/"].queues[queue].settlement
    server.wait_until(lambda: settlement.settled_above_floor >= COUNT - 60 - len(KEPT))


def rounds(server: ThreadedServer, count: int) -> None:
    """Write rounds of checkpoints, and wait for what each began."""
    for _ in range(count):
        server.run(server.server.checkpointer.write_round)
        server.wait_until(lambda: server.server.compactor.is_idle)


def bodies(client: AmqpClient) -> list[int]:
    """Take everything out of the queue; return the numbers in the messages."""
    found = []
    while (message := client.get("q", no_ack=True)) is not None:
        found.append(int(message.body[:4]))
    return found


def test_compaction_frees_pinned_segments_and_a_restart_keeps_their_unsettled_messages(
    tmp_path: Path,
) -> None:
    with ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server:
        with connect(server.address) as client:
            settle_most(client, server)
            before = log_bytes(tmp_path)
            rounds(server, 12)
            after = log_bytes(tmp_path)
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: len(queue.ready) == len(KEPT))
        assert before > COUNT * len(BODY)
        assert after < before / 5
        assert queue.store.log.reclaim.compacted_segments >= len(KEPT)
        assert queue.store.log.reclaim.compaction_bytes >= before - after - SEGMENT_BYTES
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel()
        assert bodies(client) == list(KEPT)


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        pytest.param({"compact_below": 0}, {}, id="it is off"),
        pytest.param({}, {"x-retain-for": 3_600_000}, id="the queue keeps what is settled"),
        pytest.param({"disk_free_limit_bytes": 1 << 40}, {}, id="the disk has no room for it"),
    ],
)
def test_compaction_leaves_segments_unchanged_when(
    tmp_path: Path, settings: dict[str, Any], arguments: dict[str, int]
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        settle_most(client, server, arguments=arguments)
    with ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0, **settings) as server:
        before = log_bytes(tmp_path)
        rounds(server, 3)
        assert log_bytes(tmp_path) == before


def test_compaction_frees_the_spilled_segments_of_a_transient_queue(tmp_path: Path) -> None:
    with (
        ThreadedServer(
            tmp_path, offset_checkpoint_interval_seconds=0, ring_bytes=MIB // 8
        ) as server,
        connect(server.address) as client,
    ):
        settle_most(client, server, durable=False)
        before = log_bytes(tmp_path)
        rounds(server, 12)
        assert log_bytes(tmp_path) < before / 2
        client.close()
        with connect(server.address) as other:
            other.open_channel()
            queue = server.server.broker.vhosts["/"].queues["q"]
            server.wait_until(lambda: len(queue.ready) == len(KEPT))
            assert bodies(other) == list(KEPT)


def test_a_purge_is_answered_although_the_free_disk_space_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint was written, but the client got an internal error."""
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        settle_most(client, server)

        def fail() -> int:
            raise OSError(5, "broken")

        monkeypatch.setattr(server.server.compactor, "_free_bytes", fail)
        client.declare("other")
        client.publish(b"one", "other")
        client.expect_confirmed()
        client.send(Queue.Purge(queue="other"))
        assert client.expect(Queue.PurgeOk).message_count == 1


def test_the_segment_before_an_empty_one_is_compacted_once_a_later_record_is_on_the_disk(
    tmp_path: Path,
) -> None:
    """The `end` file on the disk may still speak of it, and of its length."""
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-segment-max-bytes": 65_536})
        for _ in range(12):
            client.publish(BODY, "q")
            # One by one: a segment never ends within messages that are written together.
            client.expect_confirmed()
        queue = server.server.broker.vhosts["/"].queues["q"]
        log = queue.store.log
        server.call(queue.store.request_roll)
        server.wait_until(lambda: len(log.segments) == 3 and not queue.store.is_flushing)
        assert log.segments[1].end_offset == queue.store.recovery_point == 12
        # The first message stays with its consumer, and pins all that follow.
        assert client.get("q", no_ack=False) is not None
        while client.get("q") is not None:
            pass
        server.wait_until(lambda: queue.settlement.settled_above_floor == 11)
        rounds(server, 4)
        assert [segment.name.generation for segment in log.segments] == [1, 0, 0]
        client.publish(b"behind", "q")
        client.expect_confirmed()
        rounds(server, 4)
        assert [segment.name.generation for segment in log.segments] == [1, 1, 0]
