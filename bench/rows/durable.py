"""Persistent messages with confirms and acks: small bodies and bodies of 1 KiB."""

from typing import Final

from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.workloads import WORKLOADS

EXPERIMENTS: Final = (
    Experiment(
        "durable",
        (
            Row(
                "durable",
                "durable, confirms (window 1000), acks, alike messages of 128 B",
                "msg/s",
                durability="fdatasync before each confirm",
                bar=450_000,
                ratio_bar=12,
                interpreted_bar=60_000,
            ),
        ),
        WorkloadRun(
            WORKLOADS["durable"], lambda measured: {"durable": measured.consumed_per_second}
        ),
        seconds=8,
        rabbitmq_seconds=9,
    ),
    Experiment(
        "durable-1k",
        (
            Row(
                "durable-1k",
                "durable, confirms (window 1000), acks, alike messages of 1 KiB",
                "msg/s",
                durability="fdatasync before each confirm",
                bar=200_000,
                ratio_bar=12,
            ),
        ),
        WorkloadRun(
            WORKLOADS["durable"],
            lambda measured: {"durable-1k": measured.consumed_per_second},
            body_bytes=1024,
        ),
        seconds=8,
        rabbitmq_seconds=9,
    ),
)
