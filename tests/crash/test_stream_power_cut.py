"""A power cut loses no message of a stream that a consumer got."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.amqp_client import AmqpClient, connect
from tests.conformance.streams import offset_of
from tests.crash.messages import publish_confirmed
from tests.crash.power import Power
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash


def shown(client: AmqpClient, count: int) -> list[tuple[int, bytes]]:
    """Return offsets and bodies of what a consumer gets."""
    client.open_channel(2)
    client.consume("s", prefetch=1000, arguments={"x-stream-offset": "first"}, channel=2)
    messages = [client.expect_delivery(2) for _ in range(count)]
    return [(offset_of(message), message.body) for message in messages]


@pytest.mark.parametrize("durability", ["fsync", "write", "none"])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_delivered_message_keeps_its_offset_after_a_power_cut(
    tmp_path: Path, durability: str, seed: int | None
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    power = Power(root)
    arguments: Any = {"x-queue-type": "stream", "x-durability": durability}
    with ThreadedServer(root, power, offset_checkpoint_interval_seconds=0) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("s", arguments=arguments)
            queue = server.server.broker.vhosts["/"].queues["s"]
            publish_confirmed(client, "s", range(20), persistent=False)
            server.wait_until(lambda: queue.store.written_end == 20)
            server.run(server.server.checkpointer.write_now)
            publish_confirmed(client, "s", range(20, 40), persistent=False)
            server.wait_until(lambda: queue.store.written_end == 40)
            visible = 40 if durability == "fsync" else 20
            seen = shown(client, visible)
            power.unplug()
        server.abandon()
    power.lose(None if seed is None else random.Random(seed))
    # Without fsync at each confirm, consumers get messages when a checkpoint has synced them.
    with (
        ThreadedServer(root, offset_checkpoint_interval_seconds=0.05) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        count = client.ready_count("s")
        assert visible <= count <= 40
        publish_confirmed(client, "s", range(100, 110))
        found = shown(client, count + 10)
        assert found[:visible] == seen == [(number, b"%d" % number) for number in range(visible)]
        assert [body for _, body in found[-10:]] == [b"%d" % number for number in range(100, 110)]
