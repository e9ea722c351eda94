"""Settled segments are removed after a checkpoint unless an option keeps them."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic

from amqp_server.broker.queue import Queue
from appendlog import CompactRequest, FlushResult
from tests.amqp_client import AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

LARGE = bytes(40 << 20)
"""Two of these do not fit one segment of 64 MiB."""
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("settings", "arguments", "left"),
    [
        pytest.param({}, {}, 1, id="by default they go"),
        pytest.param({}, {"x-retain-for": HOUR_MS}, 2, id="the queue keeps them"),
        pytest.param({"retain_for_seconds": 3600}, {}, 2, id="the server keeps them"),
        pytest.param(
            {"retain_for_seconds": 3600}, {"x-retain-for": 0}, 1, id="the queue's word counts"
        ),
    ],
)
def test_settled_segments(
    tmp_path: Path, settings: dict[str, Any], arguments: dict[str, int], left: int
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0, **settings) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q", arguments=arguments)
        for _ in range(2):
            client.publish(LARGE, "q")
        client.expect_confirmed()
        assert len(list(tmp_path.glob("logs/**/*.log"))) == 2
        for _ in range(2):
            message = client.get("q", no_ack=False)
            assert message is not None
            client.send(Basic.Ack(message.tag))
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: queue.settlement.ack_floor == 2)

        server.run(server.server.checkpointer.write_round)
        client.publish(b"behind", "q")
        client.expect_confirmed()

        # Another thread removes files: the test compares the files when it is done.
        server.wait_until(lambda: len(logs_of(tmp_path)) == left)


def logs_of(path: Path) -> list[Path]:
    return list(path.glob("logs/**/*.log"))


def test_a_drained_queue_frees_its_disk_space(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(bytes(2 << 20), "q")
        client.expect_confirmed()
        assert client.get("q") is not None
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.run(server.server.checkpointer.write_round)
        server.wait_until(lambda: queue.store.log.size_bytes < 1_000)
        assert sum(path.stat().st_size for path in logs_of(tmp_path)) < 1_000
        client.publish(b"next", "q")
        client.expect_confirmed()
        message = client.get("q")
        assert message is not None
        assert message.body == b"next"


def test_an_old_segment_of_an_idle_queue_is_sealed(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0.02) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-segment-max-age": 50})
        client.declare("other")
        for queue in ("q", "other"):
            client.publish(b"one", queue)
        client.expect_confirmed()
        server.wait_until(lambda: len(logs_of(tmp_path)) == 3)
        client.publish(b"two", "q")
        client.expect_confirmed()
        found = [client.get("q") for _ in range(2)]
        assert [message.body for message in found if message] == [b"one", b"two"]


def test_a_queue_may_have_segments_of_its_own_size(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, segment_bytes=1 << 20) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("small", arguments={"x-segment-max-bytes": 65_536})
        client.declare("large")
        for _ in range(4):
            for queue in ("small", "large"):
                client.publish(bytes(50_000), queue)
                client.expect_confirmed()
        assert len(logs_of(tmp_path)) == 4 + 1


SMALL = {"x-segment-max-bytes": 65_536}
"""Six messages of `BODY` in a file."""
BODY = bytes(10_000)


def fill(client: AmqpClient, count: int, arguments: dict[str, Any], queue: str = "q") -> None:
    client.declare(queue, arguments=SMALL | arguments)
    for number in range(count):
        client.publish(b"%04d" % number + BODY, queue)
        # One by one: a segment never ends within messages that are written together.
        client.expect_confirmed()


def take(client: AmqpClient, server: ThreadedServer, count: int, queue: str = "q") -> None:
    """Acknowledge the first messages of a queue."""
    found = server.server.broker.vhosts["/"].queues[queue]
    for _ in range(count):
        message = client.get(queue, no_ack=False)
        assert message is not None
        client.send(Basic.Ack(message.tag))
    server.wait_until(lambda: found.settlement.ack_floor >= count)


def do_rounds(server: ThreadedServer, count: int = 3) -> None:
    """Write checkpoints, and wait for what they had removed."""
    queues = server.server.broker.vhosts["/"].queues.values()
    for _ in range(count):
        server.run(server.server.checkpointer.write_round)
        for queue in queues:
            done = threading.Event()
            server.call(partial(_after_maintenance, server, queue, done))
            assert done.wait(HANG_SECONDS)


def _after_maintenance(server: ThreadedServer, queue: Queue, done: threading.Event) -> None:
    """Tell when what was asked of a log is done: requests for one log keep their order."""
    log = queue.store.log
    request = CompactRequest(log, log.segments[-1], [], 0)
    storage = server.server.broker.storage
    before = storage.on_compacted

    def note(result: FlushResult) -> None:
        if result.request is request:
            storage.on_compacted = before
            done.set()
        else:
            before(result)

    storage.on_compacted = note
    storage.flusher.submit(request)


def files(path: Path, queue: str = "q") -> int:
    return len(list(path.glob(f"logs/*/{queue}/*/*.log")))


def numbers(client: AmqpClient, queue: str = "q") -> list[int]:
    """Take everything out of a queue; return the numbers in the messages."""
    found = []
    while (message := client.get(queue, no_ack=True)) is not None:
        found.append(int(message.body[:4]))
    return found


@pytest.mark.parametrize(
    ("settings", "arguments", "left"),
    [
        pytest.param({}, {"x-retain-bytes": 140_000}, 3, id="the queue's bytes"),
        pytest.param({"retain_bytes": 140_000}, {}, 3, id="the server's bytes"),
        pytest.param(
            {"retain_bytes": 140_000}, {"x-retain-bytes": 0}, 1, id="the queue's word counts"
        ),
        pytest.param({}, {"x-retain-segments-min": 4}, 4, id="the queue's least number"),
        pytest.param({"retain_segments_min": 4}, {}, 4, id="the server's least number"),
        pytest.param(
            {"retain_bytes_total": 140_000}, {"x-retain-for": HOUR_MS}, 3, id="the server's total"
        ),
        pytest.param(
            {}, {"x-retain-for": HOUR_MS, "x-retain-bytes": 70_000}, 2, id="either of two bounds"
        ),
    ],
)
def test_the_retention_limits_keep_this_many_settled_messages(
    tmp_path: Path, settings: dict[str, Any], arguments: dict[str, Any], left: int
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0, **settings) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 61, arguments)
        assert files(tmp_path) == 11
        take(client, server, 61)
        do_rounds(server)
        assert files(tmp_path) == left


def test_the_total_of_all_queues_takes_the_oldest_first(tmp_path: Path) -> None:
    with (
        ThreadedServer(
            tmp_path,
            offset_checkpoint_interval_seconds=0,
            retain_for_seconds=3600,
            retain_bytes_total=390_000,
        ) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        for name in ("old", "new"):
            fill(client, 31, {}, name)
            take(client, server, 31, name)
        do_rounds(server)
        assert (files(tmp_path, "old"), files(tmp_path, "new")) == (2, 6)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"x-force-remove-after": 1}, id="by force"),
        pytest.param({"x-retain-for": 1, "x-protect-unconsumed": False}, id="unprotected"),
    ],
)
def test_forced_removal_drops_old_unconsumed_messages_for_good(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 61, arguments)
        held = [client.get("q", no_ack=False) for _ in range(2)]
        do_rounds(server)
        queue = server.server.broker.vhosts["/"].queues["q"]
        assert files(tmp_path) == 1
        assert queue.forced_removal.dropped_count == 60
        first, second = held
        assert first is not None
        assert second is not None
        client.send(Basic.Ack(first.tag))
        client.send(Basic.Nack(second.tag, requeue=True))
        client.publish(b"0061", "q")
        client.expect_confirmed()
        assert queue.settlement.ack_floor == 60
        assert queue.forced_removal.dropped_count == 60
        assert len(queue.ready) == 2
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel()
        assert numbers(client) == [60, 61]


def test_unsettled_messages_are_protected_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 61, {"x-retain-for": 1, "x-retain-bytes": 1, "x-retain-segments-min": 1})
        do_rounds(server)
        assert files(tmp_path) == 11
        assert numbers(client) == list(range(61))


def test_forced_removal_makes_dead_letters_where_the_queue_has_an_exchange_for_them(
    tmp_path: Path,
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("dead")
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        fill(client, 61, {"x-force-remove-after": 1, **dead_letters})
        queues = server.server.broker.vhosts["/"].queues
        # Segments that are not sealed yet when a round begins are removed in the next.
        while queues["q"].settlement.ack_floor < 60:
            server.run(server.server.checkpointer.write_round)
        do_rounds(server)
        assert files(tmp_path) == 1
        letter = client.get("dead")
        assert letter is not None
        headers = letter.properties.headers
        assert headers is not None
        assert headers["x-first-death-reason"] == "expired"
        assert numbers(client, "dead") == list(range(1, 60))
        assert numbers(client) == [60]


def test_a_stop_forces_no_removal_that_the_next_start_would_repeat(tmp_path: Path) -> None:
    """It said that messages were removed, after the checkpoint that would have kept that."""
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 13, {"x-force-remove-after": 1})
        queue = server.server.broker.vhosts["/"].queues["q"]
    assert queue.forced_removal.dropped_count == queue.settlement.ack_floor == 0
    with ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server:
        assert server.server.broker.vhosts["/"].queues["q"].ready_count == 13
