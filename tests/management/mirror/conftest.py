"""A real broker, and a mirror of it that goes by a clock which the test turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from amqp_server.management.broker_client import BrokerClient
from amqp_server.management.mirror import Mirror
from tests.threaded_server import ThreadedServer

BEGIN_SECONDS = 1_800_000_000


class TurnedTime:
    """The time of a mirror; no wait takes any."""

    def __init__(self) -> None:
        self.now_seconds = float(BEGIN_SECONDS)
        self.waits: list[float] = []

    def seconds(self) -> float:
        return self.now_seconds

    async def until(self, at_seconds: float) -> None:
        self.waits.append(at_seconds - self.now_seconds)
        self.now_seconds = max(self.now_seconds, at_seconds)


class Observed:
    """A broker and its mirror."""

    def __init__(self, server: ThreadedServer, path: Path) -> None:
        self.server = server
        self.path = path
        self.time = TurnedTime()
        self.client = BrokerClient(path)
        self.mirror = Mirror(self.client, self.time)

    async def tick(self, seconds: int = 5) -> None:
        """Let time pass, then refresh and take samples."""
        self.time.now_seconds += seconds
        await self.mirror.refresh()
        self.mirror.take_samples(int(self.time.now_seconds))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path / "data") as running:
        yield running


@pytest_asyncio.fixture
async def observed(server: ThreadedServer, tmp_path: Path) -> AsyncIterator[Observed]:
    broker = Observed(server, tmp_path / "data")
    await broker.mirror.refresh()
    broker.mirror.take_samples(BEGIN_SECONDS)
    yield broker
    await broker.client.close()
