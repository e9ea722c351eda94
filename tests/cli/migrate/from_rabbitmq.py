"""A real RabbitMQ moves to our broker while both, and the command, are killed in turns.

`make check-tools` runs this. Variables: MIGRATE_MESSAGES (all queues together), MIGRATE_QUEUES,
MIGRATE_KILLS; the long mode is MIGRATE_MESSAGES=1000000.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from amqp_server.protocol.tables import table_of
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.connection import connect
from bench.rabbitmq import RabbitMQNode, free_ports
from bench.running_broker import RunningBroker
from tests.cli.migrate.kinds import Kind
from tests.cli.migrate.migration import Migration
from tests.cli.migrate.traffic import publish, read_back
from tests.servers import RunningServer

MESSAGES = int(os.environ.get("MIGRATE_MESSAGES", "50000"))
QUEUES = int(os.environ.get("MIGRATE_QUEUES", "200"))
KILLS = int(os.environ.get("MIGRATE_KILLS", "9"))
RATE_MESSAGES = 100_000
ROUNDS = 3
WINDOW = 500
PARALLEL = 4
EXCHANGE = "proof"
PADDING = 100
RARE = {Kind.QUORUM: 10, Kind.STREAM: 20}
"""Every so many queues are of these kinds, which cost RabbitMQ the most."""
COMMON = (
    Kind.CLASSIC,
    Kind.LAZY,
    Kind.PRIORITY,
    Kind.LIFETIME,
    Kind.DEAD_LETTERS,
    Kind.LENGTH,
)
ACKS_UNWRITTEN_MAX = 32_768
"""Acks of a queue that RabbitMQ keeps in memory before it writes them: a kill loses them."""


class Source:
    """A RabbitMQ with its HTTP API, which can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        (api_port,) = free_ports(1)
        settings = (
            f"management.tcp.port = {api_port}\nmanagement.tcp.ip = 127.0.0.1\n"
            "vm_memory_high_watermark.absolute = 4GB\n"
        )
        self.api = f"http://guest:guest@127.0.0.1:{api_port}"
        self._node = RabbitMQNode(
            "RabbitMQ", directory, plugins=("rabbitmq_management",), settings=settings
        )
        self._running = ExitStack()
        self._broker: RunningBroker | None = None

    @contextmanager
    def port_mapper(self) -> Iterator[None]:
        """Run what the node needs; stop the node at the end."""
        with self._node.port_mapper(), self._running:
            yield

    def start(self) -> None:
        """Start it, for the first time or after it was killed."""
        self._broker = self._running.enter_context(self._node.running())

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._broker is not None, "not started"
        assert self._broker.pid is not None, "a process of this machine"
        os.kill(self._broker.pid, 9)
        self._running.close()

    @property
    def uri(self) -> str:
        """Address for AMQP."""
        assert self._broker is not None, "not started"
        return f"amqp://guest:guest@127.0.0.1:{self._broker.url.port}"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    directory = tmp_path / "rabbitmq"
    directory.mkdir()
    made = Source(directory)
    with made.port_mapper():
        made.start()
        yield made


def kind_of(number: int) -> Kind:
    for kind, step in reversed(RARE.items()):
        if number % step == step - 1:
            return kind
    return COMMON[number % len(COMMON)]


async def declare(uri: AmqpUri, queues: list[tuple[str, Kind]], count: int) -> None:
    async with await connect(uri) as connection:
        channel = await connection.open_channel()
        await channel.declare_exchange(EXCHANGE)
        for name, kind in queues:
            # Twice as many as come: a kill may let some come twice.
            arguments = table_of(kind.arguments(2 * count))
            await channel.declare_queue(name, arguments)
            await channel.bind_queue(name, EXCHANGE, name)


@pytest.mark.timeout(7200)
def test_all_queues_move_while_everything_is_killed_in_turns(
    tmp_path: Path, source: Source
) -> None:
    queues = [(f"{kind_of(n).value}-{n}", kind_of(n)) for n in range(QUEUES)]
    count = MESSAGES // QUEUES
    uri = AmqpUri.parse(source.uri)
    asyncio.run(declare(uri, queues, count))
    began = time.monotonic()
    asyncio.run(publish(uri, queues, count, exchange=EXCHANGE, padding=PADDING))
    print(f"\npublished {count * QUEUES} messages in {time.monotonic() - began:.0f} s")
    with RunningServer(tmp_path / "data") as target:
        target.start()
        options = (
            *("--from", source.uri, "--api", source.api, "--window", str(WINDOW)),
            *("--parallel", str(PARALLEL), "--until-empty", "--idle", "3s"),
            "--ignore-publishers",
        )
        migration = Migration(target.storage_path, options, tmp_path)
        began = time.monotonic()
        migration.start()
        kills = kill_in_turns(source, target, migration)
        code = migration.wait(3600)
        seconds = time.monotonic() - began
        report = migration.report
        assert (code, report["differs"], report["left"]) == (0, [], []), report["not_compared"]
        arrived = asyncio.run(
            read_back(
                AmqpUri.parse(f"amqp://guest:guest@127.0.0.1:{target.port}"),
                queues,
                exchange=EXCHANGE,
                padding=PADDING,
                expected=count,
            )
        )
        target.terminate()
    lost = {q: count - len(set(arrived.numbers[q])) for q, _ in queues}
    twice = {q: len(arrived.numbers[q]) - len(set(arrived.numbers[q])) for q, _ in queues}
    streams_twice = sum(twice[q] for q, kind in queues if kind is Kind.STREAM)
    print(
        f"moved in {seconds:.0f} s with kills {kills}: lost {sum(lost.values())}, "
        f"twice {sum(twice.values())} (most of a queue {max(twice.values())}), "
        f"of streams {streams_twice}"
    )
    assert sum(lost.values()) == 0, {q: n for q, n in lost.items() if n}
    assert arrived.changed == []
    assert streams_twice == 0
    ours = kills["target"] + kills["command"]
    most = PARALLEL * WINDOW * (ours + kills["source"])
    if not kills["source"]:
        assert sum(twice.values()) <= most
    assert max(twice.values()) <= WINDOW * ours + (WINDOW + ACKS_UNWRITTEN_MAX) * kills["source"]
    for queue, kind in queues:
        if kind is not Kind.PRIORITY:
            first = list(dict.fromkeys(arrived.numbers[queue]))
            assert first == sorted(first), queue


def kill_in_turns(source: Source, target: RunningServer, migration: Migration) -> dict[str, int]:
    """Kill the command, our broker and RabbitMQ in turns, each while messages move."""
    kills = dict.fromkeys(("command", "target", "source"), 0)
    for number in range(KILLS):
        if not moves_on(migration):
            break
        kind = ("command", "target", "source")[number % 3]
        kills[kind] += 1
        if kind == "command":
            migration.kill()
            migration.start()
        elif kind == "target":
            target.kill()
            target.restart()
        else:
            source.kill()
            source.start()
    return kills


def moves_on(migration: Migration) -> bool:
    """Return when the run has moved messages since its last line of progress; false if it ended."""
    while migration.is_running:
        progress = [each for each in migration.events if each["event"] == "progress"]
        if len(progress) > 1 and progress[-1]["moved"] > progress[0]["moved"]:
            return True
        time.sleep(0.1)  # the run is another process, and nothing tells of its progress
    return False


@pytest.mark.timeout(900)
def test_rate_beside_a_consumer_of_rabbitmq(tmp_path: Path, source: Source) -> None:
    """Print how fast the command moves, and how fast RabbitMQ feeds a consumer that only acks."""
    queues = [(f"{each}-{n}", Kind.CLASSIC) for each in ("plain", "moved") for n in range(ROUNDS)]
    uri = AmqpUri.parse(source.uri)
    asyncio.run(declare(uri, queues, RATE_MESSAGES))
    asyncio.run(publish(uri, queues, RATE_MESSAGES, exchange=EXCHANGE, padding=PADDING))
    ratios = []
    with RunningServer(tmp_path / "data") as target:
        target.start()
        for number in range(ROUNDS):
            plain = asyncio.run(consumer_rate(uri, f"plain-{number}", RATE_MESSAGES))
            options = (
                *("--from", source.uri, "--api", source.api, "--queue", f"^moved-{number}$"),
                *("--until-empty", "--idle", "0", "--ignore-publishers"),
            )
            migration = Migration(target.storage_path, options, tmp_path)
            migration.start()
            assert migration.wait(600) == 0, migration.errors
            moved = rate_of(migration)
            ratios.append(moved / plain)
            print(f"\nconsumer {plain:.0f}/s, moved {moved:.0f}/s, ratio {moved / plain:.2f}")
    print(f"median ratio {sorted(ratios)[len(ratios) // 2]:.2f}")


async def consumer_rate(uri: AmqpUri, queue: str, count: int) -> float:
    """Return messages a second of a consumer that does nothing but to ack."""
    async with await connect(uri) as connection:
        channel = await connection.open_channel()
        await channel.set_prefetch(2000)
        began = time.monotonic()
        deliveries = await channel.consume(queue)
        seen = 0
        while seen < count:
            batch = await deliveries.next_batch()
            seen += len(batch)
            channel.ack(batch[-1].tag, multiple=True)
        return count / (time.monotonic() - began)


def rate_of(migration: Migration) -> float:
    """Return messages a second of a run, from the queue's own times."""
    (queue,) = migration.report["queues"]
    assert queue["moved"] == RATE_MESSAGES
    return float(queue["moved"] / queue["seconds"])
