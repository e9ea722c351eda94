"""Filters over logs that are longer than the ring, compared with a list of the values."""

import random
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, connect
from tests.conformance.streams import offset_of
from tests.threaded_server import ThreadedServer

COUNT = 6_000


def publish_values(client: AmqpClient, values: list[str | None]) -> None:
    client.open_channel(9, confirms=True)
    client.declare("s", arguments={"x-queue-type": "stream"}, channel=9)
    for number, value in enumerate(values):
        headers: Any = None if value is None else {"x-stream-filter-value": value}
        properties = Basic.Properties(headers=headers)
        client.publish(b"%d" % number, "s", properties=properties, channel=9)
    client.expect_confirmed(9)


def runs(chance: random.Random) -> list[str | None]:
    """Return values in runs: of one message, and of thousands."""
    values: list[str | None] = []
    while len(values) < COUNT:
        value = chance.choice([None, "a", "b", "c", "d"])
        values += [value] * chance.choice([1, 1, 1, 2, 5, 40, 1500])
    return values[:COUNT]


@pytest.mark.parametrize("seed", range(3))
def test_a_filtered_consumer_gets_exactly_the_matching_messages(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    values = runs(chance)
    with (
        # The ring has the end of it; the rest is read from files.
        ThreadedServer(tmp_path, ring_size=1024) as server,
        connect(server.address) as client,
    ):
        publish_values(client, values)
        for channel, (wanted, unfiltered) in enumerate(
            [({"a"}, False), ({"b", "c"}, True), ({"d"}, False), ({"none"}, False)], 1
        ):
            start = chance.randrange(COUNT // 2)
            expected = [
                offset
                for offset, value in enumerate(values)
                if offset >= start and (unfiltered if value is None else value in wanted)
            ]
            client.open_channel(channel)
            arguments = {
                "x-stream-offset": start,
                "x-stream-filter": sorted(wanted),
                "x-stream-match-unfiltered": unfiltered,
            }
            prefetch = chance.choice([1, 7, 300])
            client.consume("s", prefetch=prefetch, arguments=arguments, channel=channel)
            got = []
            for _ in expected:
                message = client.expect_delivery(channel)
                assert message.body == b"%d" % offset_of(message)
                got.append(offset_of(message))
                client.send(Basic.Ack(message.tag), channel)
            assert got == expected


def test_a_filtered_consumer_that_retention_overtakes_continues_at_the_new_beginning(
    tmp_path: Path,
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(9, confirms=True)
        arguments: Any = {
            "x-queue-type": "stream",
            "x-max-length-bytes": 250_000,
            "x-stream-max-segment-size-bytes": 1,
        }
        client.declare("s", arguments=arguments, channel=9)
        for number in range(60):
            headers: Any = {"x-stream-filter-value": "odd" if number % 2 else "even"}
            properties = Basic.Properties(headers=headers)
            body = b"%d" % number + bytes(10_000)
            client.publish(body, "s", properties=properties, channel=9)
            client.expect_confirmed(9)
        client.open_channel()
        asked = {"x-stream-offset": "first", "x-stream-filter": "odd"}
        client.consume("s", prefetch=2, arguments=asked)
        assert [offset_of(client.expect_delivery()) for _ in range(2)] == [1, 3]
        for _ in range(2):
            server.run(server.server.checkpointer.write_round)
        start = server.server.broker.vhosts["/"].queues["s"].settlement.ack_floor
        assert start > 10
        client.send(Basic.Ack(2, True))
        for offset in range(start + 1, 60, 2):
            message = client.expect_delivery()
            assert offset_of(message) == offset
            client.send(Basic.Ack(message.tag))
