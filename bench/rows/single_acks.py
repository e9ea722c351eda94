"""One publisher, and one consumer that acknowledges every message by itself."""

from typing import Final

from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.workloads import Workload

EXPERIMENTS: Final = (
    Experiment(
        "single-acks",
        (
            Row(
                "single-acks",
                "transient, an ack for each message (no multiple), prefetch 100, "
                "alike messages of 128 B",
                "msg/s",
                ratio_bar=5,
            ),
        ),
        WorkloadRun(
            Workload(
                prefetch=100,
                ack_every=1,
                # About a fifth of 100 deliveries: with more, the broker would wait for acks.
                read_bytes_least=4_096,
            ),
            lambda measured: {"single-acks": measured.consumed_per_second},
            seconds_max=3,
        ),
        seconds=6,
        rabbitmq_seconds=6,
    ),
)
