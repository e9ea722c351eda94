"""One publisher and one consumer of transient messages without acks: rate, CPU and memory."""

from typing import Final

from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.workloads import WORKLOADS

EXPERIMENTS: Final = (
    Experiment(
        "transient",
        (
            Row(
                "transient",
                "transient, no acks, alike messages of 128 B",
                "msg/s",
                bar=1_200_000,
                ratio_bar=12,
                interpreted_bar=150_000,
            ),
            Row(
                "transient-cpu",
                "server CPU per message, transient, no acks, alike messages",
                "us",
                is_lower_better=True,
                bar=0.75,
                decimals=2,
            ),
            Row(
                "transient-rss",
                "peak RSS, transient, no acks, alike messages",
                "MB",
                is_lower_better=True,
                bar=80,
            ),
        ),
        WorkloadRun(
            WORKLOADS["transient"],
            lambda measured: {
                "transient": measured.consumed_per_second,
                # Seconds for a million messages are microseconds for one.
                "transient-cpu": measured.server_cpu_seconds_per_million,
                "transient-rss": measured.peak_rss_megabytes,
            },
        ),
        seconds=8,
        rabbitmq_seconds=9,
    ),
)
