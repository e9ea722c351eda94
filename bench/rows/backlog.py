"""Persistent messages that pile up in a durable queue without a consumer, and are then consumed."""

from dataclasses import replace
from typing import Final

from bench.table.experiment import Experiment, Row
from bench.table.workload_run import BACKLOG_COUNT, WorkloadRun
from bench.workloads import WORKLOADS

_RABBITMQ_SHARE: Final = 0.1
"""With all messages, RabbitMQ would take minutes."""
_BACKLOG: Final = (
    f"a backlog of {BACKLOG_COUNT:,} alike messages "
    f"(RabbitMQ: {BACKLOG_COUNT * _RABBITMQ_SHARE:,.0f})"
)
_DURABILITY: Final = "persistent, no confirms: written, synced in the background"

EXPERIMENTS: Final = (
    Experiment(
        "backlog",
        (
            Row(
                "backlog-publish",
                f"durable, no confirms: {_BACKLOG} published",
                "msg/s",
                durability=_DURABILITY,
                bar=1_200_000,
                ratio_bar=40,
            ),
            Row(
                "backlog-drain",
                f"durable: {_BACKLOG} drained, acks, prefetch 1000",
                "msg/s",
                durability=_DURABILITY,
                bar=1_800_000,
                ratio_bar=35,
            ),
            Row(
                "backlog-rss",
                f"peak RSS, {_BACKLOG} published and drained",
                "MB",
                is_lower_better=True,
                durability=_DURABILITY,
                bar=150,
            ),
        ),
        WorkloadRun(
            replace(WORKLOADS["backlog"], confirm_window=0),
            lambda measured: {
                "backlog-publish": measured.published_per_second,
                "backlog-drain": measured.consumed_per_second,
                "backlog-rss": measured.peak_rss_megabytes,
            },
        ),
        seconds=15,
        rabbitmq_seconds=40,
        rabbitmq_share=_RABBITMQ_SHARE,
    ),
)
