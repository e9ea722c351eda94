"""The command, its source and its target are killed in turns: nothing is lost."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_server.control.client import UnreachableError, ask
from amqp_server.protocol.tables import table_of
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.connection import connect
from bench.rabbitmq import free_ports
from cli.main import main
from tests.cli.migrate.kinds import Kind
from tests.cli.migrate.migration import Migration
from tests.cli.migrate.traffic import publish, read_back
from tests.servers import RunningServer

KILLS = int(os.environ.get("MIGRATE_KILLS", "6"))
COUNT = int(os.environ.get("MIGRATE_MESSAGES", "24000")) // 4
WINDOW = 400
QUEUES = [("classic", Kind.CLASSIC), ("quorum", Kind.QUORUM), ("stream", Kind.STREAM)]
EXCHANGE = "proof"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[RunningServer]:
    """Start a source that keeps its address when it is killed."""
    (port,) = free_ports(1)
    with RunningServer(tmp_path / "source", "--port", str(port)) as server:
        yield server.start()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "target") as server:
        yield server.start()


async def fill(uri: AmqpUri) -> None:
    async with await connect(uri) as connection:
        channel = await connection.open_channel()
        await channel.declare_exchange(EXCHANGE)
        for name, kind in QUEUES:
            await channel.declare_queue(name, table_of(kind.arguments(COUNT)))
            await channel.bind_queue(name, EXCHANGE, name)
    await publish(uri, QUEUES, COUNT, exchange=EXCHANGE)


@pytest.mark.crash
@pytest.mark.parametrize("victims", [("command", "target"), ("source",)])
def test_nothing_is_lost_and_little_comes_twice(
    tmp_path: Path, source: RunningServer, target: RunningServer, victims: tuple[str, ...]
) -> None:
    uri = AmqpUri.parse(f"amqp://guest:guest@127.0.0.1:{source.port}")
    asyncio.run(fill(uri))
    definitions = tmp_path / "definitions.json"
    export(source, definitions)
    options = (
        *("--from", f"amqp://guest:guest@127.0.0.1:{source.port}"),
        *("--definitions", str(definitions), "--window", str(WINDOW), "--parallel", "2"),
        *("--until-empty", "--idle", "0"),
    )
    migration = Migration(target.storage_path, options, tmp_path)
    migration.start()
    kills = dict.fromkeys(victims, 0)
    for number, victim in zip(range(KILLS), itertools.cycle(victims), strict=False):
        if not moves_on(target, number):
            break
        kills[victim] += 1
        match victim:
            case "command":
                migration.kill()
                migration.start()
            case "target":
                target.kill()
                target.restart()
            case "source":
                source.kill()
                source.restart()
    assert migration.wait() == 0, migration.errors
    read = read_back(
        AmqpUri.parse(f"amqp://guest:guest@127.0.0.1:{target.port}"),
        QUEUES,
        exchange=EXCHANGE,
        expected=COUNT,
    )
    arrived = asyncio.run(read)
    assert arrived.changed == []
    for name, kind in QUEUES:
        numbers = arrived.numbers[name]
        assert list(dict.fromkeys(numbers)) == list(range(COUNT)), name
        twice = len(numbers) - COUNT
        if kind is Kind.STREAM:
            assert twice == 0
        elif "source" not in victims:
            # A source that is killed also gives back what it has not written as acked.
            assert twice <= WINDOW * sum(kills.values()), name


def export(server: RunningServer, file: Path) -> None:
    options = ("--storage-path", str(server.storage_path))
    assert main(["definitions", "export", str(file), *options]) == 0


def moves_on(target: RunningServer, number: int) -> bool:
    """Return whether the target has got a part more of the messages, when it has."""
    wanted = (number + 1) * len(QUEUES) * COUNT // (KILLS + 1)
    while True:
        try:
            page = ask(target.storage_path, "queues.stats", vhost="", queue="", after="", limit=10)
        except UnreachableError:
            return False
        got = sum(row["log_end_offset"] for row in page["queues"])
        if got >= wanted:
            return bool(got < len(QUEUES) * COUNT)
