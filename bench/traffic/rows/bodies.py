"""Services with large bodies: about 4 KiB, 64 KiB and 1 MiB, each of another size."""

from typing import Final

from bench.traffic.consuming import BUFFER_BYTES
from bench.traffic.message_source import ServiceMessages
from bench.traffic.row import TrafficRow
from bench.traffic.shape import Sizes
from bench.traffic.topology import Topology
from bench.traffic.traffic_run import TrafficRun

_QUEUES: Final = 4
_SPREAD: Final = 0.3
_OF_ONE_FRAME: Final = 120 << 10
"""Largest body of the rows whose bodies fit into a frame of 128 KiB."""


def _row(key: str, size: str, median: int, most: int, window: int, batch: int) -> TrafficRow:
    topology = Topology(tuple(f"bench-{number}" for number in range(_QUEUES)))
    source = ServiceMessages(
        topology.exchange, _QUEUES, sizes=Sizes(median, _SPREAD, median // 4, most)
    )
    return TrafficRow(
        key,
        f"services, 4 publishers, confirms (window {window}), bodies of about {size}, each of "
        "another size",
        TrafficRun(
            topology,
            source,
            _QUEUES,
            window,
            window,
            batch,
            buffer_bytes=max(2 * most, BUFFER_BYTES),
        ),
    )


ROWS: Final = (
    _row("bodies-4k", "4 KiB", 4 << 10, _OF_ONE_FRAME, window=200, batch=50),
    _row("bodies-64k", "64 KiB", 64 << 10, _OF_ONE_FRAME, window=50, batch=4),
    _row("bodies-1m", "1 MiB", 1 << 20, 3 << 20, window=8, batch=1),
)
