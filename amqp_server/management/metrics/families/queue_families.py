"""Metrics of each queue."""

from __future__ import annotations

from typing import Final

from amqp_server.management.metrics.family import Family, FamilyGroup, Kind, Sum
from amqp_server.management.metrics.object_sets import (
    CONSUMED_STREAMS,
    DESCRIBED_QUEUES,
    QUEUES,
    QUEUES_BY_EXCHANGE,
    USED_QUEUES,
)

QUEUE_COARSE: Final = FamilyGroup(
    "queue_coarse_metrics",
    QUEUES,
    (
        Family(
            "queue_messages_ready",
            Kind.GAUGE,
            "Messages ready to be delivered to consumers",
            "messages_ready",
        ),
        Family(
            "queue_messages_unacked",
            Kind.GAUGE,
            "Messages delivered to consumers but not yet acknowledged",
            "messages_unacknowledged",
        ),
        Family(
            "queue_messages",
            Kind.GAUGE,
            "Sum of ready and unacknowledged messages - total queue depth",
            "messages",
        ),
        Family(
            "queue_process_reductions_total",
            Kind.COUNTER,
            "Total number of queue process reductions",
            "reductions",
        ),
    ),
)

QUEUE_CONSUMER_COUNT: Final = FamilyGroup(
    "queue_consumer_count",
    QUEUES,
    (Family("queue_consumers", Kind.GAUGE, "Consumers on a queue", "consumers"),),
)

QUEUE_DETAILS: Final = FamilyGroup(
    "queue_metrics",
    QUEUES,
    (
        Family("queue_consumers", Kind.GAUGE, "Consumers on a queue", "consumers"),
        Family(
            "queue_consumer_capacity",
            Kind.GAUGE,
            "Consumer capacity",
            "consumer_capacity",
            sum=Sum.ABSENT,
        ),
        Family(
            "queue_consumer_utilisation",
            Kind.GAUGE,
            "Same as consumer capacity",
            "consumer_utilisation",
        ),
        Family(
            "queue_process_memory_bytes",
            Kind.GAUGE,
            "Memory in bytes used by the Erlang queue process",
            "memory",
        ),
        Family(
            "queue_messages_ram",
            Kind.GAUGE,
            "Ready and unacknowledged messages stored in memory",
            "messages_ram",
        ),
        Family(
            "queue_messages_ram_bytes",
            Kind.GAUGE,
            "Size of ready and unacknowledged messages stored in memory",
            "message_bytes_ram",
        ),
        Family(
            "queue_messages_ready_ram",
            Kind.GAUGE,
            "Ready messages stored in memory",
            "messages_ready_ram",
        ),
        Family(
            "queue_messages_unacked_ram",
            Kind.GAUGE,
            "Unacknowledged messages stored in memory",
            "messages_unacknowledged_ram",
        ),
        Family(
            "queue_messages_persistent", Kind.GAUGE, "Persistent messages", "messages_persistent"
        ),
        Family(
            "queue_messages_persistent_bytes",
            Kind.GAUGE,
            "Size in bytes of persistent messages",
            "message_bytes_persistent",
            sum=Sum.ABSENT,
        ),
        Family(
            "queue_messages_paged_out",
            Kind.GAUGE,
            "Messages paged out to disk",
            "messages_paged_out",
        ),
        Family(
            "queue_messages_paged_out_bytes",
            Kind.GAUGE,
            "Size in bytes of messages paged out to disk",
            "message_bytes_paged_out",
        ),
        Family(
            "queue_messages_bytes",
            Kind.GAUGE,
            "Size in bytes of ready and unacknowledged messages",
            "message_bytes",
        ),
        Family(
            "queue_messages_ready_bytes",
            Kind.GAUGE,
            "Size in bytes of ready messages",
            "message_bytes_ready",
        ),
        Family(
            "queue_messages_unacked_bytes",
            Kind.GAUGE,
            "Size in bytes of all unacknowledged messages",
            "message_bytes_unacknowledged",
        ),
        Family(
            "queue_head_message_timestamp",
            Kind.GAUGE,
            "Timestamp of the first message in the queue, if any",
            "head_message_timestamp",
            default=None,
            sum=Sum.ABSENT,
        ),
        Family(
            "queue_disk_reads_total",
            Kind.COUNTER,
            "Total number of times queue read messages from disk",
            "message_stats.disk_reads",
            total="message_stats.disk_reads",
        ),
        Family(
            "queue_disk_writes_total",
            Kind.COUNTER,
            "Total number of times queue wrote messages to disk",
            "message_stats.disk_writes",
            total="message_stats.disk_writes",
        ),
        Family("stream_segments", Kind.COUNTER, "Total number of stream segment files", "segments"),
    ),
    is_superset_of="queue_consumer_count",
)

QUEUE_DELIVERIES: Final = FamilyGroup(
    "queue_delivery_metrics",
    USED_QUEUES,
    (
        Family(
            "queue_get_ack_total",
            Kind.COUNTER,
            "Total number of messages fetched from a queue with basic.get in manual "
            "acknowledgement mode",
            "message_stats.get",
            total="message_stats.get",
        ),
        Family(
            "queue_get_total",
            Kind.COUNTER,
            "Total number of messages fetched from a queue with basic.get in automatic "
            "acknowledgement mode",
            "message_stats.get_no_ack",
            total="message_stats.get_no_ack",
        ),
        Family(
            "queue_messages_delivered_ack_total",
            Kind.COUNTER,
            "Total number of messages delivered from a queue to consumers in manual "
            "acknowledgement mode",
            "message_stats.deliver",
            total="message_stats.deliver",
        ),
        Family(
            "queue_messages_delivered_total",
            Kind.COUNTER,
            "Total number of messages delivered from a queue to consumers in automatic "
            "acknowledgement mode",
            "message_stats.deliver_no_ack",
            total="message_stats.deliver_no_ack",
        ),
        Family(
            "queue_messages_redelivered_total",
            Kind.COUNTER,
            "Total number of messages redelivered from a queue to consumers",
            "message_stats.redeliver",
            total="message_stats.redeliver",
        ),
        Family(
            "queue_messages_acked_total",
            Kind.COUNTER,
            "Total number of messages acknowledged by consumers on a queue",
            "message_stats.ack",
            total="message_stats.ack",
        ),
        Family(
            "queue_get_empty_total",
            Kind.COUNTER,
            "Total number of times basic.get operations fetched no message on a queue",
            "message_stats.get_empty",
            total="message_stats.get_empty",
        ),
    ),
)

QUEUE_PUBLISHES: Final = FamilyGroup(
    "queue_exchange_metrics",
    QUEUES_BY_EXCHANGE,
    (
        Family(
            "queue_exchange_messages_published_total",
            Kind.COUNTER,
            "Total number of messages published into a queue through an exchange",
            "message_stats.publish",
            total="routed",
        ),
    ),
)

STREAM_CONSUMERS: Final = FamilyGroup(
    "stream_consumer_metrics",
    CONSUMED_STREAMS,
    (
        Family(
            "stream_consumer_max_offset_lag",
            Kind.GAUGE,
            "Highest consumer offset lag",
            "max_offset_lag",
            sum=Sum.LARGEST,
        ),
    ),
)

QUEUE_INFO: Final = FamilyGroup(
    "queue_info",
    DESCRIBED_QUEUES,
    (
        Family(
            "queue_info",
            Kind.GAUGE,
            "A metric with a constant '1' value and labels that provide some queue details",
            "one",
            sum=Sum.ABSENT,
        ),
    ),
)
