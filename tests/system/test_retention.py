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
        # The flusher takes its requests in order: the answer to this publish comes after them.
        client.publish(b"behind", "q")
        client.expect_confirmed()

        assert len(list(tmp_path.glob("logs/**/*.log"))) == left
