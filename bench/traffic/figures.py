"""Figures of one run of one row against one broker."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from bench.latency import LatencySummary

LIMIT_CORES: Final = 0.9
"""A generator's process that is busy for longer than this part of the run may be the limit."""


@dataclass(frozen=True, slots=True)
class TrafficFigures:
    """Figures of one run. None stands for an unknown figure, or one that the row does not have.

    Attributes:
        messages: Deliveries, round trips or requests, as the row's unit says.
        seconds: Time that they took.
        lost: Messages that were confirmed but did not arrive, or were still in a queue.
        repeated: Deliveries of a message that had arrived before.
        corrupt: Deliveries with a wrong digest.
        disordered: Deliveries behind a later message of the same publisher.
        latency: Latencies, of the kind that the row says.
        server_cpu_seconds: CPU of the broker.
        generator_cpu_seconds: CPU of each process of the generator.
        others_cores: Cores that other programs kept busy.
        seed: Seed of the run.
    """

    messages: int
    seconds: float
    lost: int
    repeated: int
    corrupt: int
    disordered: int
    latency: LatencySummary | None
    server_cpu_seconds: float | None
    generator_cpu_seconds: tuple[float, ...]
    others_cores: float | None
    seed: int

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def server_us(self) -> float | None:
        """CPU of the broker for each message, in microseconds."""
        if self.server_cpu_seconds is None or not self.messages:
            return None
        return self.server_cpu_seconds * 1e6 / self.messages

    @property
    def generator_us(self) -> float | None:
        """CPU of the generator for each message, in microseconds."""
        return sum(self.generator_cpu_seconds) * 1e6 / self.messages if self.messages else None

    @property
    def server_cores(self) -> float | None:
        """Cores that the broker kept busy."""
        if self.server_cpu_seconds is None or not self.seconds:
            return None
        return self.server_cpu_seconds / self.seconds

    @property
    def generator_cores(self) -> float:
        """Cores that the generator kept busy."""
        return sum(self.generator_cpu_seconds) / self.seconds if self.seconds else 0.0

    @property
    def is_generator_limit(self) -> bool:
        """Whether one of the generator's processes was busy nearly all of the time."""
        return any(each > LIMIT_CORES * self.seconds for each in self.generator_cpu_seconds)

    @property
    def faults(self) -> int:
        """Messages lost, repeated, corrupt or out of order; the figures count only if this is 0."""
        return self.lost + self.repeated + self.corrupt + self.disordered

    def to_json(self) -> dict[str, Any]:
        """Return all figures in a form that `json` can write."""
        derived = (
            "per_second",
            "server_us",
            "generator_us",
            "server_cores",
            "generator_cores",
            "is_generator_limit",
        )
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in derived}
