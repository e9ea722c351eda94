"""Rounds of two phases each, on one server: the load alone, then beside the HTTP clients."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import requests
from bench.connection import Connection
from bench.management.http_clients import HttpOrder
from bench.management.load import LoadOrder
from bench.management.managed_server import ManagedServer, start_managed_server
from bench.management.phase import PhaseFigures, run_phase

_CHANNEL = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        queues: Durable queues that exist.
        spread: Queues that get messages, 1 to `queues`.
        rate_per_second: Messages a second.
        seconds: How long each phase publishes.
        rounds: Rounds of two phases.
        pages: Open pages.
        body_bytes: Size of each body.
        warm_up_seconds: How long the load runs before the first round; 0 for not at all.
    """

    queues: int
    spread: int
    rate_per_second: int
    seconds: float
    rounds: int
    pages: int
    body_bytes: int
    warm_up_seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """All figures.

    Attributes:
        phases: Figures of the phases in turn: alone, beside HTTP clients, alone, ...
    """

    phases: tuple[PhaseFigures, ...]

    @property
    def idle_management_bytes(self) -> int:
        """Largest resident memory of the management server before the first HTTP request."""
        return self.phases[0].management_rss_bytes

    @property
    def rounds(self) -> tuple[tuple[PhaseFigures, PhaseFigures], ...]:
        """The two phases of each round."""
        return tuple(zip(self.phases[::2], self.phases[1::2], strict=True))


def measure(plan: Plan, data_parent: Path, show: Callable[[str, PhaseFigures], None]) -> Measured:
    """Start our server, measure all phases and stop it.

    Args:
        plan: What to measure.
        data_parent: Directory for the server's data, which is removed afterwards.
        show: Gets the title and the figures of each phase as soon as it is over.

    Raises:
        BenchError: The server did not start, a client failed, or messages of a phase are left over.
    """
    with (
        tempfile.TemporaryDirectory(
            prefix="bench-", dir=data_parent, ignore_cleanup_errors=True
        ) as directory,
        start_managed_server(Path(directory)) as server,
    ):
        names = queue_names(plan.queues)
        with Connection(server.amqp_url, _CHANNEL) as connection:
            connection.ask_pipelined(
                [requests.declare_queue(_CHANNEL, name, durable=True) for name in names]
            )
            connection.close()
        # All over the list, so that every page of it has busy queues.
        spread = tuple(names[i * plan.queues // plan.spread] for i in range(plan.spread))
        if plan.warm_up_seconds:
            run_phase(server, _load(server, plan, spread, plan.warm_up_seconds), None)
        phases = []
        for title, has_clients in _turns(plan.rounds):
            load = _load(server, plan, spread, plan.seconds)
            http = HttpOrder(server.url, server.metrics_url, plan.pages, plan.seconds)
            figures = run_phase(server, load, http if has_clients else None)
            show(title, figures)
            phases.append(figures)
    return Measured(tuple(phases))


def queue_names(count: int) -> list[str]:
    """Return the names of queues, all of one length."""
    digits = len(str(count - 1))
    return [f"q{number:0{digits}}" for number in range(count)]


def _turns(rounds: int) -> Iterator[tuple[str, bool]]:
    for number in range(1, rounds + 1):
        yield f"round {number}, alone", False
        yield f"round {number}, with HTTP clients", True


def _load(server: ManagedServer, plan: Plan, spread: tuple[str, ...], seconds: float) -> LoadOrder:
    return LoadOrder(server.amqp_url, spread, plan.rate_per_second, seconds, plan.body_bytes)
