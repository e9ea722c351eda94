"""Settled segments go when they are checkpointed, unless somebody asked to keep them."""

from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic

from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer

LARGE = bytes(40 << 20)
"""Two of these do not fit one segment of 64 MiB."""
HOUR_MS = 3_600_000


@pytest.mark.timeout(60)
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

        # Removal has a thread of its own, so what is kept is looked at when it is done.
        server.wait_until(lambda: len(logs_of(tmp_path)) == left)


def logs_of(path: Path) -> list[Path]:
    return list(path.glob("logs/**/*.log"))


def test_a_queue_that_is_drained_gives_its_space_back(tmp_path: Path) -> None:
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
