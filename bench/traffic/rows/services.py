"""Services: publishers and consumers in pairs, persistent messages, confirms, an ack each."""

from typing import Final

from bench.traffic.message_source import ServiceMessages
from bench.traffic.row import TO_DELIVERY, TrafficRow
from bench.traffic.topology import Topology
from bench.traffic.traffic_run import WRITE_MESSAGES, TrafficRun


def services(
    pairs: int, window: int, *, has_new_keys: bool, durable: bool = True, batch: int = 0
) -> TrafficRun:
    """Return the run of some publishers, and as many queues with a consumer each.

    Args:
        pairs: Publishers; each publishes to all queues.
        window: Window of confirms, and the prefetch; 0 for neither.
        has_new_keys: Whether each message has a new routing key.
        durable: Whether queues are durable and messages persistent.
        batch: Messages of each write; 0 for WRITE_MESSAGES, or a quarter of a smaller window.
    """
    topology = Topology(tuple(f"bench-{number}" for number in range(pairs)), is_durable=durable)
    source = ServiceMessages(topology.exchange, pairs, has_new_keys, is_persistent=durable)
    quarter = max(1, window // 4) if window else WRITE_MESSAGES
    batch = batch or min(WRITE_MESSAGES, quarter)
    return TrafficRun(topology, source, pairs, window, window, batch)


def _row(pairs: int, window: int, *, has_new_keys: bool) -> TrafficRow:
    keys = "unbounded" if has_new_keys else "few"
    many = f"{pairs} publisher{'s' * (pairs > 1)}"
    return TrafficRow(
        f"services-{pairs}x{window}-{keys}",
        f"services, {many}, confirms (window {window}), "
        f"{'a new routing key each' if has_new_keys else '64 routing keys'}",
        services(pairs, window, has_new_keys=has_new_keys),
    )


ROWS: Final = (
    _row(4, 200, has_new_keys=False),
    _row(4, 200, has_new_keys=True),
    _row(1, 1000, has_new_keys=False),
    _row(1, 1000, has_new_keys=True),
    _row(16, 50, has_new_keys=False),
    TrafficRow(
        "services-transient",
        "services, 4 publishers, transient, no confirms, no acks, 64 routing keys",
        services(4, 0, has_new_keys=False, durable=False),
        TO_DELIVERY,
    ),
    TrafficRow(
        "single-writes",
        "services, 4 publishers, confirms (window 200), one write for each message",
        services(4, 200, has_new_keys=False, batch=1),
    ),
    TrafficRow(
        "confirm-each",
        "services, 100 publishers that wait for each confirm, 4 queues",
        TrafficRun(
            Topology(tuple(f"bench-{number}" for number in range(4))),
            ServiceMessages("bench-traffic", 4),
            publishers=100,
            window=1,
            prefetch=200,
            batch=1,
        ),
    ),
    TrafficRow(
        "confirm-alone",
        "services, 1 publisher that waits for each confirm",
        TrafficRun(
            Topology(("bench-0",)),
            ServiceMessages("bench-traffic", 1),
            publishers=1,
            window=1,
            prefetch=200,
            batch=1,
        ),
    ),
)
