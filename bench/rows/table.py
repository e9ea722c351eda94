"""The benchmark table: its rows in their order, and the experiments that fill them."""

from dataclasses import replace
from typing import Final

from bench.measurement import Measurement
from bench.rows.connection_churn import CONNECTIONS
from bench.rows.experiment import Experiment
from bench.rows.fanout import FANOUT
from bench.rows.get_loop import GETS
from bench.rows.many_clients import MANY_CLIENTS
from bench.rows.memory import MEMORY
from bench.rows.pika_pair import PIKA
from bench.rows.pipelined_declares import DECLARES
from bench.rows.row import Row
from bench.rows.single_acks import SINGLE_ACKS
from bench.rows.start_time import START
from bench.rows.topic import TOPIC
from bench.rows.workload_experiment import BACKLOG_COUNT, WorkloadExperiment
from bench.workloads import WORKLOADS

_CONFIRMED: Final = "fdatasync before each confirm"
_WRITTEN: Final = "persistent, no confirms: written, synced in the background"
_MB: Final = 1_000_000
_RABBITMQ_BACKLOG_SHARE: Final = 0.1
"""All of it would take RabbitMQ minutes."""
_BACKLOG: Final = (
    f"a backlog of {BACKLOG_COUNT:,} (RabbitMQ: {BACKLOG_COUNT * _RABBITMQ_BACKLOG_SHARE:,.0f})"
)

TRANSIENT: Final = Row(
    "transient",
    "transient, no acks, 128 B",
    "msg/s",
    bar=1_200_000,
    ratio_bar=12,
    interpreted_bar=150_000,
)
TRANSIENT_CPU: Final = Row(
    "transient-cpu",
    "server CPU per message, transient, no acks",
    "us",
    is_lower_better=True,
    bar=0.75,
    decimals=2,
)
TRANSIENT_RSS: Final = Row(
    "transient-rss",
    "peak RSS, transient, no acks",
    "MB",
    is_lower_better=True,
    bar=80,
)
ACKS: Final = Row(
    "acks",
    "transient, acks, prefetch 1000, 128 B",
    "msg/s",
    bar=800_000,
    ratio_bar=9,
    interpreted_bar=100_000,
)
ACKS_1K: Final = Row(
    "acks-1k", "transient, acks, prefetch 1000, 1 KiB", "msg/s", bar=400_000, ratio_bar=7
)
DURABLE: Final = Row(
    "durable",
    "durable, confirms (window 1000), acks, 128 B",
    "msg/s",
    durability=_CONFIRMED,
    bar=450_000,
    ratio_bar=12,
    interpreted_bar=60_000,
)
DURABLE_1K: Final = Row(
    "durable-1k",
    "durable, confirms (window 1000), acks, 1 KiB",
    "msg/s",
    durability=_CONFIRMED,
    bar=200_000,
    ratio_bar=12,
)
BACKLOG_PUBLISH: Final = Row(
    "backlog-publish",
    f"durable, no confirms: {_BACKLOG} published",
    "msg/s",
    durability=_WRITTEN,
    bar=1_200_000,
    ratio_bar=40,
)
BACKLOG_DRAIN: Final = Row(
    "backlog-drain",
    f"durable: {_BACKLOG} drained, acks, prefetch 1000",
    "msg/s",
    durability=_WRITTEN,
    bar=1_800_000,
    ratio_bar=35,
)
BACKLOG_RSS: Final = Row(
    "backlog-rss",
    f"peak RSS, {_BACKLOG} published and drained",
    "MB",
    is_lower_better=True,
    durability=_WRITTEN,
    bar=150,
)
LATENCY_P99: Final = Row(
    "latency-p99",
    "latency p99 at 10,000 msg/s, transient",
    "ms",
    is_lower_better=True,
    bar=1.0,
    ratio_bar=0.5,
    decimals=2,
)
LATENCY_P999: Final = Row(
    "latency-p999",
    "latency p99.9 at 10,000 msg/s, transient",
    "ms",
    is_lower_better=True,
    bar=3.0,
    decimals=2,
)

LATENCY_DURABLE_P99: Final = Row(
    "latency-durable-p99",
    "latency p99 at 10,000 msg/s, durable with confirms, to the consumer",
    "ms",
    is_lower_better=True,
    durability=_CONFIRMED,
    bar=4.0,
    ratio_bar=0.5,
    decimals=2,
)
LATENCY_CONFIRM_P99: Final = Row(
    "latency-confirm-p99",
    "latency p99 at 10,000 msg/s, durable, to the confirm",
    "ms",
    is_lower_better=True,
    durability=_CONFIRMED,
    bar=4.0,
    ratio_bar=0.5,
    decimals=2,
)

_MANY_CLIENTS_AND_ROUTES: Final = (MANY_CLIENTS, FANOUT, TOPIC, SINGLE_ACKS, GETS, PIKA)

_AT_REST_AND_METHODS: Final = (MEMORY, START, CONNECTIONS, DECLARES)

ROWS: Final[tuple[Row, ...]] = (
    TRANSIENT,
    ACKS,
    ACKS_1K,
    DURABLE,
    DURABLE_1K,
    BACKLOG_PUBLISH,
    BACKLOG_DRAIN,
    TRANSIENT_CPU,
    TRANSIENT_RSS,
    BACKLOG_RSS,
    *(row for experiment in _MANY_CLIENTS_AND_ROUTES for row in experiment.rows),
    LATENCY_P99,
    LATENCY_P999,
    LATENCY_DURABLE_P99,
    LATENCY_CONFIRM_P99,
    *(row for experiment in _AT_REST_AND_METHODS for row in experiment.rows),
)


def _consumed(measurement: Measurement) -> float:
    return measurement.consumed_per_second


def _peak_rss(measurement: Measurement) -> float | None:
    return None if measurement.peak_rss_bytes is None else measurement.peak_rss_bytes / _MB


def _latency_p99(measurement: Measurement) -> float | None:
    return None if measurement.latency is None else measurement.latency.p99 * 1e3


def _latency_p999(measurement: Measurement) -> float | None:
    return None if measurement.latency is None else measurement.latency.p999 * 1e3


def _confirm_p99(measurement: Measurement) -> float | None:
    latency = measurement.confirm_latency
    return None if latency is None else latency.p99 * 1e3


EXPERIMENTS: Final[tuple[Experiment, ...]] = (
    Experiment(
        "transient",
        (TRANSIENT, TRANSIENT_CPU, TRANSIENT_RSS),
        WorkloadExperiment(
            WORKLOADS["transient"],
            128,
            {
                TRANSIENT.key: _consumed,
                # Seconds for a million messages are microseconds for one.
                TRANSIENT_CPU.key: lambda each: each.server_cpu_seconds_per_million,
                TRANSIENT_RSS.key: _peak_rss,
            },
        ),
        seconds=8,
        rabbitmq_seconds=9,
    ),
    Experiment(
        "acks",
        (ACKS,),
        WorkloadExperiment(WORKLOADS["acks"], 128, {ACKS.key: _consumed}),
        seconds=8,
        rabbitmq_seconds=9,
    ),
    Experiment(
        "acks-1k",
        (ACKS_1K,),
        WorkloadExperiment(WORKLOADS["acks"], 1024, {ACKS_1K.key: _consumed}),
        seconds=8,
        rabbitmq_seconds=9,
    ),
    Experiment(
        "durable",
        (DURABLE,),
        WorkloadExperiment(WORKLOADS["durable"], 128, {DURABLE.key: _consumed}),
        seconds=8,
        rabbitmq_seconds=9,
    ),
    Experiment(
        "durable-1k",
        (DURABLE_1K,),
        WorkloadExperiment(WORKLOADS["durable"], 1024, {DURABLE_1K.key: _consumed}),
        seconds=8,
        rabbitmq_seconds=9,
    ),
    Experiment(
        "backlog",
        (BACKLOG_PUBLISH, BACKLOG_DRAIN, BACKLOG_RSS),
        WorkloadExperiment(
            replace(WORKLOADS["backlog"], confirm_window=0),
            128,
            {
                BACKLOG_PUBLISH.key: lambda each: each.published_per_second,
                BACKLOG_DRAIN.key: _consumed,
                BACKLOG_RSS.key: _peak_rss,
            },
        ),
        seconds=15,
        rabbitmq_seconds=40,
        rabbitmq_share=_RABBITMQ_BACKLOG_SHARE,
    ),
    *_MANY_CLIENTS_AND_ROUTES,
    Experiment(
        "latency",
        (LATENCY_P99, LATENCY_P999),
        WorkloadExperiment(
            WORKLOADS["latency"],
            128,
            {LATENCY_P99.key: _latency_p99, LATENCY_P999.key: _latency_p999},
        ),
        seconds=8,
        rabbitmq_seconds=8,
    ),
    Experiment(
        "latency-durable",
        (LATENCY_DURABLE_P99, LATENCY_CONFIRM_P99),
        WorkloadExperiment(
            WORKLOADS["latency-durable"],
            128,
            {LATENCY_DURABLE_P99.key: _latency_p99, LATENCY_CONFIRM_P99.key: _confirm_p99},
        ),
        seconds=8,
        rabbitmq_seconds=8,
    ),
    *_AT_REST_AND_METHODS,
)
