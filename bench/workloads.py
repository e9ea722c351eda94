"""The workloads: what publishers and consumers do, and how much of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from bench.consumer import READ_BYTES_LEAST, ConsumeOrder, ConsumeResult, consume
from bench.exchange import Exchange
from bench.publisher import PublishOrder, PublishResult, publish
from bench.worker import Counters, StartLine

QUEUE: Final = "bench"


class Kind(StrEnum):
    """Which connections publish and consume, and when."""

    RATE = "rate"
    """One publisher and one consumer a queue, at once, as fast as the broker goes."""
    LATENCY = "latency"
    """The same at a fixed rate, with the time of every message."""
    BACKLOG = "backlog"
    """One publisher; when it has finished, one consumer."""
    PAIRS = "pairs"
    """A publisher and a consumer for each queue, as fast as the broker goes."""
    SOAK = "soak"
    """Several publishers and consumers that share one queue; every message is checked."""


class Client(NamedTuple):
    """The functions of the publisher's and the consumer's process; importable by name."""

    publish: Callable[[StartLine, PublishOrder, Counters], PublishResult]
    consume: Callable[[StartLine, ConsumeOrder, Counters], ConsumeResult]


PLAIN: Final = Client(publish, consume)
"""The generator's own client, which burns little CPU."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload.

    Attributes:
        kind: Which connections publish and consume, and when.
        summary: One line for the report of `python -m bench`.
        is_durable: Whether the queues are durable and the messages are persistent.
        confirm_window: Most publishes without an answer; 0 for no confirms.
        prefetch: Most deliveries without an ack; 0 to consume without acks.
        ack_every: Deliveries for each ack; 1 for an ack without `multiple`.
        ring_slots: Value of `--ring-size` for our server; None for its default.
        queues: Names of the queues, which each run creates and deletes.
        exchange: Exchange to publish to; None for the default exchange. It must route all
            messages to one queue, or each message to all queues if it is a fanout exchange: the
            consumers check the order of the messages.
        routing_keys: Routing keys of the messages in turn, all of one length; empty for the name
            of the queue, or for no key with a fanout exchange.
        read_bytes_least: As in `ConsumeOrder`.
        client: Publishes and consumes in the kinds with one publisher.
    """

    kind: Kind = Kind.RATE
    summary: str = ""
    is_durable: bool = False
    confirm_window: int = 0
    prefetch: int = 0
    ack_every: int = 0
    ring_slots: int | None = None
    queues: tuple[str, ...] = (QUEUE,)
    exchange: Exchange | None = None
    routing_keys: tuple[str, ...] = ()
    read_bytes_least: int = READ_BYTES_LEAST
    client: Client = PLAIN

    @property
    def copies(self) -> int:
        """Queues that get each message."""
        return len(self.queues) if self.exchange and self.exchange.kind == "fanout" else 1


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of a workload to run.

    Attributes:
        seconds: How long to publish.
        warm_up_seconds: The same for the warm-up, which is not reported; 0 for no warm-up.
        count: Messages of a rate workload instead of `seconds`; None for the time.
        body_bytes: Size of each body.
        rate_per_second: Messages a second of a latency workload.
        soak_seconds: How long the soak publishes.
        soak_connections: Publishers of the soak, and as many consumers.
        backlog_count: Messages of a backlog.
    """

    seconds: float = 5.0
    warm_up_seconds: float = 0.5
    count: int | None = None
    body_bytes: int = 128
    rate_per_second: int = 10_000
    soak_seconds: float = 30.0
    soak_connections: int = 20
    backlog_count: int = 5_000_000

    def for_warm_up(self) -> Self:
        """Return the scale of the warm-up."""
        return replace(self, seconds=self.warm_up_seconds, count=None)


WORKLOADS: Final[Mapping[str, Workload]] = MappingProxyType(
    {
        "transient": Workload(
            summary="transient messages, no acks, both directions at once",
        ),
        "acks": Workload(
            summary="transient messages, acks, prefetch 1000",
            prefetch=1000,
            ack_every=250,
        ),
        "durable": Workload(
            summary="durable queue, persistent messages, confirms (window 1000), acks",
            is_durable=True,
            confirm_window=1000,
            prefetch=1000,
            ack_every=250,
        ),
        "latency": Workload(
            Kind.LATENCY,
            "transient messages at a fixed rate, acks, every message timed",
            prefetch=1000,
            ack_every=100,
        ),
        "latency-durable": Workload(
            Kind.LATENCY,
            "persistent messages at a fixed rate, confirms, acks, every message timed",
            is_durable=True,
            confirm_window=1000,
            prefetch=1000,
            ack_every=100,
        ),
        "soak": Workload(
            Kind.SOAK,
            "20 publishers and 20 consumers on one queue, acks, every message checked",
            prefetch=1000,
            ack_every=250,
            ring_slots=1024,
            read_bytes_least=1,
        ),
        "backlog": Workload(
            Kind.BACKLOG,
            "persistent messages pile up in a durable queue, then are consumed",
            is_durable=True,
            confirm_window=1000,
            prefetch=1000,
            ack_every=250,
        ),
    }
)
"""The workloads of `python -m bench --workloads`, by name."""

DEFAULT_WORKLOADS: Final = ("transient", "acks", "durable", "latency")
"""Workloads that take seconds; soak and backlog take minutes and run only when named."""

QUICK: Final = Scale(seconds=1.0, warm_up_seconds=0.25, soak_seconds=3.0, backlog_count=100_000)
