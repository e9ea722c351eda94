"""Latency at 10,000 messages a second: transient messages, and persistent ones with confirms."""

from typing import Final

from bench.latency import milliseconds
from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.workloads import WORKLOADS

EXPERIMENTS: Final = (
    Experiment(
        "latency",
        (
            Row(
                "latency-p99",
                "latency p99 at 10,000 alike msg/s, transient",
                "ms",
                is_lower_better=True,
                bar=1.0,
                ratio_bar=0.5,
                decimals=2,
            ),
            Row(
                "latency-p999",
                "latency p99.9 at 10,000 alike msg/s, transient",
                "ms",
                is_lower_better=True,
                bar=3.0,
                decimals=2,
            ),
        ),
        WorkloadRun(
            WORKLOADS["latency"],
            lambda measured: {
                "latency-p99": milliseconds(measured.latency, "p99"),
                "latency-p999": milliseconds(measured.latency, "p999"),
            },
        ),
        seconds=8,
        rabbitmq_seconds=8,
    ),
    Experiment(
        "latency-durable",
        (
            Row(
                "latency-durable-p99",
                "latency p99 at 10,000 alike msg/s, durable with confirms, to the consumer",
                "ms",
                is_lower_better=True,
                durability="fdatasync before each confirm",
                bar=4.0,
                ratio_bar=0.5,
                decimals=2,
            ),
            Row(
                "latency-confirm-p99",
                "latency p99 at 10,000 alike msg/s, durable, to the confirm",
                "ms",
                is_lower_better=True,
                durability="fdatasync before each confirm",
                bar=4.0,
                ratio_bar=0.5,
                decimals=2,
            ),
        ),
        WorkloadRun(
            WORKLOADS["latency-durable"],
            lambda measured: {
                "latency-durable-p99": milliseconds(measured.latency, "p99"),
                "latency-confirm-p99": milliseconds(measured.confirm_latency, "p99"),
            },
        ),
        seconds=8,
        rabbitmq_seconds=8,
    ),
)
