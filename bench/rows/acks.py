"""Transient messages with acks: small bodies and bodies of 1 KiB."""

from typing import Final

from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.workloads import WORKLOADS

EXPERIMENTS: Final = (
    Experiment(
        "acks",
        (
            Row(
                "acks",
                "transient, acks, prefetch 1000, alike messages of 128 B",
                "msg/s",
                bar=800_000,
                ratio_bar=9,
                interpreted_bar=100_000,
            ),
        ),
        WorkloadRun(WORKLOADS["acks"], lambda measured: {"acks": measured.consumed_per_second}),
        seconds=8,
        rabbitmq_seconds=9,
    ),
    Experiment(
        "acks-1k",
        (
            Row(
                "acks-1k",
                "transient, acks, prefetch 1000, alike messages of 1 KiB",
                "msg/s",
                bar=400_000,
                ratio_bar=7,
            ),
        ),
        WorkloadRun(
            WORKLOADS["acks"],
            lambda measured: {"acks-1k": measured.consumed_per_second},
            body_bytes=1024,
        ),
        seconds=8,
        rabbitmq_seconds=9,
    ),
)
