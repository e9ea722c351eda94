"""Metrics that RabbitMQ does not have: logs, offsets, consumer groups, checkpoints, stalls."""

from __future__ import annotations

from typing import Final

from amqp_server.management.metrics.family import Family, FamilyGroup, Kind, Sum
from amqp_server.management.metrics.object_sets import EXPORTS, GROUPS, NODE, OVERVIEW, QUEUES

_PREFIX: Final = "amqp_server_"
_DETAILED_PREFIX: Final = "amqp_server_detailed_"

QUEUE_LOGS: Final = FamilyGroup(
    "queue_log_metrics",
    QUEUES,
    (
        Family("queue_log_bytes", Kind.GAUGE, "Size in bytes of a queue's log", "log_bytes"),
        Family("queue_log_segments", Kind.GAUGE, "Segment files of a queue's log", "segments"),
        Family(
            "queue_log_start_offset",
            Kind.GAUGE,
            "Offset at which a queue's log begins",
            "log_start_offset",
            sum=Sum.ABSENT,
        ),
        Family(
            "queue_log_end_offset",
            Kind.GAUGE,
            "Offset that the next message of a queue gets",
            "log_end_offset",
            sum=Sum.ABSENT,
        ),
        Family(
            "queue_oldest_message_timestamp_seconds",
            Kind.GAUGE,
            "When the oldest message that a queue still has was published, since 1970",
            "oldest_message_timestamp",
            scale=0.001,
            sum=Sum.ABSENT,
            default=None,
        ),
    ),
    prefix=_PREFIX,
    detailed_prefix=_DETAILED_PREFIX,
)

GROUP_LAGS: Final = FamilyGroup(
    "group_metrics",
    GROUPS,
    (
        Family(
            "group_lag",
            Kind.GAUGE,
            "Messages between a consumer group's committed offset and the end of its stream",
            "lag",
            sum=Sum.LARGEST,
        ),
        Family(
            "group_committed_offset",
            Kind.GAUGE,
            "Offset below which a consumer group has processed every message",
            "committed",
            sum=Sum.ABSENT,
        ),
        Family(
            "group_unacked",
            Kind.GAUGE,
            "Messages delivered to a consumer group and not yet acknowledged",
            "unacked",
        ),
    ),
    prefix=_PREFIX,
    detailed_prefix=_DETAILED_PREFIX,
)

EXPORT_STATES: Final = FamilyGroup(
    "export_metrics",
    EXPORTS,
    (
        Family(
            "export_last_run_timestamp_seconds",
            Kind.GAUGE,
            "When the last export of a queue to an output ended, since 1970",
            "ended_seconds",
            sum=Sum.ABSENT,
        ),
        Family(
            "export_failed",
            Kind.GAUGE,
            "Whether the last export of a queue to an output failed",
            "failed",
        ),
        Family(
            "export_behind_messages",
            Kind.GAUGE,
            "Messages of a queue that came after its last export to an output",
            "behind",
            sum=Sum.LARGEST,
            default=None,
        ),
    ),
    prefix=_PREFIX,
    detailed_prefix=_DETAILED_PREFIX,
)

BROKER: Final = FamilyGroup(
    "broker_metrics",
    NODE,
    (
        Family(
            "disk_stall_alarm",
            Kind.GAUGE,
            "1 while an operation on the disk does not return",
            "disk_stall_alarm",
        ),
        Family(
            "checkpoint_age_seconds",
            Kind.GAUGE,
            "Time since the last successful round of checkpoints began",
            "checkpoint_age_seconds",
            default=None,
        ),
        Family(
            "loop_stalls_total",
            Kind.COUNTER,
            "Pieces of work that kept the event loop busy for more than 20 ms",
            "stalls",
        ),
    ),
    prefix=_PREFIX,
    detailed_prefix=_DETAILED_PREFIX,
)

TRANSFERS: Final = FamilyGroup(
    "transfer_metrics",
    OVERVIEW,
    (
        Family(
            "dead_letter_cycles_total",
            Kind.COUNTER,
            "Dead letters that were not put into a queue which they had come from",
            "dead_letter_cycles",
        ),
    ),
    prefix=_PREFIX,
    detailed_prefix=_DETAILED_PREFIX,
)
