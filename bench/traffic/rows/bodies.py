"""Services with large bodies: about 4 KiB and about 64 KiB, each of another size."""

from typing import Final

from bench.traffic.message_source import ServiceMessages
from bench.traffic.row import TrafficRow
from bench.traffic.shape import Sizes
from bench.traffic.topology import Topology
from bench.traffic.traffic_run import TrafficRun

_QUEUES: Final = 4
_SPREAD: Final = 0.3
_LARGEST: Final = 120 << 10
"""Below the 128 KiB of a frame."""


def _row(key: str, size: str, median: int, window: int, batch: int) -> TrafficRow:
    topology = Topology(tuple(f"bench-{number}" for number in range(_QUEUES)))
    source = ServiceMessages(
        topology.exchange, _QUEUES, sizes=Sizes(median, _SPREAD, median // 4, _LARGEST)
    )
    return TrafficRow(
        key,
        f"services, 4 publishers, confirms (window {window}), bodies of about {size}, each of "
        "another size",
        TrafficRun(topology, source, _QUEUES, window, window, batch),
    )


ROWS: Final = (
    _row("bodies-4k", "4 KiB", 4 << 10, window=200, batch=50),
    _row("bodies-64k", "64 KiB", 64 << 10, window=50, batch=4),
)
