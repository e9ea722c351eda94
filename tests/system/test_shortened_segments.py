"""A sealed segment that is shortened under the running server: its queue and others go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic

from amqp_server.broker.queue import Queue
from amqp_server.control.queue_client import QueueClient
from appendlog import LogReader
from appendlog.files.filesystem import FileSystem
from appendlog.reclaim.compaction import CompactionAbandonedError
from cli.main import main
from tests.amqp_client import AmqpClient, connect
from tests.crash.messages import drain, flags, publish_confirmed
from tests.threaded_server import ThreadedServer

COUNT = 200
BODY_BYTES = 2048
SEGMENT_BYTES = 64 * 1024
READS_MAX = 400
"""More than any operation here needs, and far fewer than the missing part has bytes."""


class CountedReads(FileSystem):
    """Counts reads of files that end in `.log`, as segments do."""

    def __init__(self) -> None:
        self.reads = 0

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        self.reads += 1
        return super().pread(descriptor, size, position)

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        self.reads += 1
        return super().read_into(descriptor, buffer, position)


@pytest.fixture
def filesystem() -> CountedReads:
    return CountedReads()


@pytest.fixture
def server(tmp_path: Path, filesystem: CountedReads) -> Iterator[ThreadedServer]:
    with ThreadedServer(
        tmp_path / "data",
        filesystem,
        segment_bytes=SEGMENT_BYTES,
        ring_bytes=SEGMENT_BYTES,
        offset_checkpoint_interval_seconds=0,
    ) as server:
        yield server


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[AmqpClient]:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for name in ("q", "other"):
            client.declare(name, arguments={"x-retain-for": 3_600_000})
        publish_confirmed(client, "q", range(COUNT), size=BODY_BYTES)
        publish_confirmed(client, "other", range(10))
        yield client


def queue_of(server: ThreadedServer) -> Queue:
    return server.server.broker.vhosts["/"].queues["q"]


@pytest.fixture
def lost(server: ThreadedServer, client: AmqpClient, filesystem: CountedReads) -> range:
    """Shorten the second segment of `q` to a half; return the offsets that are missing."""
    log = queue_of(server).store.log
    segment = log.segments[1]
    assert segment.is_sealed
    os.truncate(segment.path, segment.data_bytes // 2)
    # As Spark reads it: split by split, in another process.
    filesystem.reads = 0
    with LogReader(log.directory, filesystem, skip_damage=True) as reader:
        there = {int(offset) for batch in reader.read(0, COUNT) for offset in batch.offsets}
    missing = [offset for offset in range(COUNT) if offset not in there]
    assert filesystem.reads < READS_MAX
    # One piece, at the end of the segment.
    assert missing == list(range(missing[0], segment.end_offset))
    filesystem.reads = 0
    return range(missing[0], segment.end_offset)


def still_serves(client: AmqpClient) -> None:
    """Check that another queue has and takes messages."""
    publish_confirmed(client, "other", range(10, 20))
    assert drain(client, "other") == flags(range(20), redelivered=False)


def bodies_but(lost: range) -> list[int]:
    return [number for number in range(COUNT) if number not in lost]


def test_a_consumer_gets_all_others_and_the_loss_is_counted(
    server: ThreadedServer, client: AmqpClient, filesystem: CountedReads, lost: range
) -> None:
    found = [int(body.rstrip(b".")) for body, _ in drain(client, "q")]
    assert found == bodies_but(lost)
    assert filesystem.reads < READS_MAX
    assert queue_of(server).store.log.damaged_chunks
    assert client.ready_count("q") == 0
    still_serves(client)


def test_a_consumer_that_has_begun_gets_all_others(
    server: ThreadedServer, client: AmqpClient
) -> None:
    """What is delivered next lies in a mapping, whose pages are gone with the end of the file."""
    log = queue_of(server).store.log
    client.open_channel(2)
    client.consume("q", prefetch=1, channel=2)
    first = client.expect_delivery(2)

    def shorten() -> bool:
        # A worker that reads ahead at this moment would end the process: it is in the mapping.
        if server.server.reads.under_way:
            return False
        for segment in log.segments[:3]:
            assert segment.is_sealed
            os.truncate(segment.path, 4096)
        return True

    server.wait_until(shorten)
    client.send(Basic.Ack(first.tag), 2)
    found = [0]
    while found[-1] != COUNT - 1:
        delivery = client.expect_delivery(2)
        found.append(int(delivery.body.rstrip(b".")))
        client.send(Basic.Ack(delivery.tag), 2)
    missing = [number for number in range(COUNT) if number not in found]
    assert found == sorted(found)
    assert len(missing) > 50
    assert log.damaged_chunks
    still_serves(client)


def test_browsers_of_both_kinds_get_all_others(
    server: ThreadedServer,
    tmp_path: Path,
    client: AmqpClient,
    filesystem: CountedReads,
    lost: range,
) -> None:
    client.open_channel(2)
    client.consume("q", arguments={"x-browse": True}, channel=2)
    wanted = bodies_but(lost)
    found = [int(client.expect_delivery(2).body.rstrip(b".")) for _ in wanted]
    assert found == wanted
    listed = [each["offset"] for each in QueueClient(tmp_path / "data").browse("q")]
    assert listed == wanted
    assert filesystem.reads < READS_MAX
    still_serves(client)


@pytest.mark.parametrize("includes_all", [True, False], ids=["all", "settled"])
def test_a_replay_copies_all_others_and_says_how_many_are_lost(
    tmp_path: Path,
    client: AmqpClient,
    filesystem: CountedReads,
    lost: range,
    includes_all: bool,
) -> None:
    if not includes_all:
        # They are settled in this order: the last one is the first that is missing.
        for _ in range(lost.start):
            assert client.get("q") is not None
    wanted = COUNT if includes_all else lost.start
    replayed = QueueClient(tmp_path / "data").replay(
        "q", start="first", to="other", includes_all=includes_all
    )
    missing = len(lost) if includes_all else 0
    assert (replayed["replayed"], replayed["lost"]) == (wanted - missing, missing)
    assert filesystem.reads < READS_MAX


def test_the_replay_command_says_how_many_are_lost(
    tmp_path: Path, client: AmqpClient, lost: range, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--from", "first", "--to", "other", "--include", "all"]
    assert (
        main(["replay", "--queue", "q", *arguments, "--storage-path", str(tmp_path / "data")]) == 0
    )
    said = capsys.readouterr().out
    assert f"; {len(lost)} more are lost, because the log is damaged" in said


def test_a_compaction_leaves_the_segment_as_it_is(
    server: ThreadedServer, filesystem: CountedReads, lost: range
) -> None:
    log = queue_of(server).store.log
    before = log.segments[1].path.read_bytes()
    with pytest.raises(CompactionAbandonedError):
        log.reclaim.compact(log.segments[1], [(lost.start - 1, lost.stop)], 1 << 30)
    assert log.segments[1].path.read_bytes() == before
    assert filesystem.reads < READS_MAX
    assert log.failed is None
