"""One publisher, a fanout exchange, ten queues: each message is delivered ten times."""

from typing import Final

from bench.exchange import Exchange
from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.workloads import Workload

_QUEUES: Final = tuple(f"bench{number}" for number in range(10))

EXPERIMENTS: Final = (
    Experiment(
        "fanout",
        (
            Row(
                "fanout",
                "fanout to 10 queues, transient, no acks, alike messages of 128 B",
                "deliveries/s",
                bar=1_500_000,
                ratio_bar=10,
            ),
        ),
        WorkloadRun(
            Workload(
                queues=_QUEUES,
                exchange=Exchange("bench-fanout", "fanout", tuple((name, "") for name in _QUEUES)),
            ),
            lambda measured: {"fanout": measured.consumed_per_second},
            seconds_max=3,
        ),
        seconds=6,
        rabbitmq_seconds=6,
    ),
)
