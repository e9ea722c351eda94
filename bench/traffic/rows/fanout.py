"""A fanout exchange with ten queues: each message is delivered ten times."""

from typing import Final

from bench.traffic.message_source import ServiceMessages
from bench.traffic.row import TrafficRow
from bench.traffic.topology import Topology
from bench.traffic.traffic_run import TrafficRun

_TOPOLOGY: Final = Topology(tuple(f"bench-{number}" for number in range(10)), kind="fanout")

ROWS: Final = (
    TrafficRow(
        "fanout-varied",
        "fanout to 10 queues, 4 publishers, confirms (window 200), prefetch 200, an ack each",
        TrafficRun(_TOPOLOGY, ServiceMessages(_TOPOLOGY.exchange), 4, window=200, prefetch=200),
        unit="deliveries/s",
    ),
)
