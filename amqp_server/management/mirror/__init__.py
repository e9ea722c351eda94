"""The broker's objects and their counters, as the management server last saw them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from amqp_server.management.broker_client import BrokerClient


@dataclass
class Samples:
    """Values of a counter over a time."""

    rate: float = 0.0
    avg_rate: float = 0.0
    avg: float = 0.0
    samples: list[tuple[int, float]] = field(default_factory=list)


@dataclass
class Row:
    """One object."""

    fields: dict[str, Any] = field(default_factory=dict)

    def rate(self, counter: str) -> float:
        """Return the change a second."""
        del counter
        return 0.0

    def samples(self, counter: str, age_seconds: int, incr_seconds: int) -> Samples:
        """Return the values over a time."""
        del counter, age_seconds, incr_seconds
        return Samples()


class Mirror:
    """The objects of one broker."""

    def __init__(self, broker: BrokerClient) -> None:
        self._broker = broker
        self.vhosts: dict[str, Row] = {}
        self.queues: dict[tuple[str, str], Row] = {}
        self.exchanges: dict[tuple[str, str], Row] = {}
        self.connections: dict[str, Row] = {}
        self.channels: dict[str, Row] = {}
        self.consumers: dict[tuple[str, str], Row] = {}
        self.node = Row()
        self.overview = Row()

    async def start(self) -> None:
        """Begin to follow the broker."""

    async def stop(self) -> None:
        """Follow no more."""

    async def refresh(self) -> None:
        """Return when the mirror shows the present state."""
        found = await self._broker.call("vhosts.list")
        self.vhosts = {each["name"]: Row(each) for each in found}
