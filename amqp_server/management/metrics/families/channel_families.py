"""Metrics of each channel, and of what it publishes to and consumes from."""

from __future__ import annotations

from typing import Final

from amqp_server.management.metrics.family import Family, FamilyGroup, Kind
from amqp_server.management.metrics.object_sets import (
    CHANNELS,
    CHANNELS_BY_EXCHANGE,
    CHANNELS_BY_QUEUE,
    CHANNELS_BY_QUEUE_AND_EXCHANGE,
)

CHANNEL_DETAILS: Final = FamilyGroup(
    "channel_metrics",
    CHANNELS,
    (
        Family("channel_consumers", Kind.GAUGE, "Consumers on a channel", "consumer_count"),
        Family(
            "channel_messages_unacked",
            Kind.GAUGE,
            "Delivered but not yet acknowledged messages",
            "messages_unacknowledged",
        ),
        Family(
            "channel_messages_unconfirmed",
            Kind.GAUGE,
            "Published but not yet confirmed messages",
            "messages_unconfirmed",
        ),
        Family(
            "channel_messages_uncommitted",
            Kind.GAUGE,
            "Messages received in a transaction but not yet committed",
            "messages_uncommitted",
        ),
        Family(
            "channel_acks_uncommitted",
            Kind.GAUGE,
            "Message acknowledgements in a transaction not yet committed",
            "acks_uncommitted",
        ),
        Family(
            "consumer_prefetch",
            Kind.GAUGE,
            "Limit of unacknowledged messages for each consumer",
            "prefetch_count",
        ),
        Family(
            "channel_prefetch",
            Kind.GAUGE,
            "Total limit of unacknowledged messages for all consumers on a channel",
            "global_prefetch_count",
        ),
    ),
)

CHANNEL_PUBLISHES: Final = FamilyGroup(
    "channel_exchange_metrics",
    CHANNELS_BY_EXCHANGE,
    (
        Family(
            "channel_messages_published_total",
            Kind.COUNTER,
            "Total number of messages published into an exchange on a channel",
            "message_stats.publish",
            total="message_stats.publish",
        ),
        Family(
            "channel_messages_confirmed_total",
            Kind.COUNTER,
            "Total number of messages published into an exchange and confirmed on the channel",
            "message_stats.confirm",
            total="message_stats.confirm",
        ),
        Family(
            "channel_messages_unroutable_returned_total",
            Kind.COUNTER,
            "Total number of messages published as mandatory into an exchange and returned to "
            "the publisher as unroutable",
            "message_stats.return_unroutable",
            total="message_stats.return_unroutable",
        ),
        Family(
            "channel_messages_unroutable_dropped_total",
            Kind.COUNTER,
            "Total number of messages published as non-mandatory into an exchange and dropped "
            "as unroutable",
            "message_stats.drop_unroutable",
            total="message_stats.drop_unroutable",
        ),
    ),
)

CHANNEL_PROCESSES: Final = FamilyGroup(
    "channel_process_metrics",
    CHANNELS,
    (
        Family(
            "channel_process_reductions_total",
            Kind.COUNTER,
            "Total number of channel process reductions",
            "reductions",
        ),
    ),
)

CHANNEL_DELIVERIES: Final = FamilyGroup(
    "channel_queue_metrics",
    CHANNELS_BY_QUEUE,
    (
        Family(
            "channel_get_ack_total",
            Kind.COUNTER,
            "Total number of messages fetched with basic.get in manual acknowledgement mode",
            "message_stats.get",
            total="message_stats.get",
        ),
        Family(
            "channel_get_total",
            Kind.COUNTER,
            "Total number of messages fetched with basic.get in automatic acknowledgement mode",
            "message_stats.get_no_ack",
            total="message_stats.get_no_ack",
        ),
        Family(
            "channel_messages_delivered_ack_total",
            Kind.COUNTER,
            "Total number of messages delivered to consumers in manual acknowledgement mode",
            "message_stats.deliver",
            total="message_stats.deliver",
        ),
        Family(
            "channel_messages_delivered_total",
            Kind.COUNTER,
            "Total number of messages delivered to consumers in automatic acknowledgement mode",
            "message_stats.deliver_no_ack",
            total="message_stats.deliver_no_ack",
        ),
        Family(
            "channel_messages_redelivered_total",
            Kind.COUNTER,
            "Total number of messages redelivered to consumers",
            "message_stats.redeliver",
            total="message_stats.redeliver",
        ),
        Family(
            "channel_messages_acked_total",
            Kind.COUNTER,
            "Total number of messages acknowledged by consumers",
            "message_stats.ack",
            total="message_stats.ack",
        ),
        Family(
            "channel_get_empty_total",
            Kind.COUNTER,
            "Total number of times basic.get operations fetched no message",
            "message_stats.get_empty",
            total="message_stats.get_empty",
        ),
    ),
)

CHANNEL_ROUTES: Final = FamilyGroup(
    "channel_queue_exchange_metrics",
    CHANNELS_BY_QUEUE_AND_EXCHANGE,
    (
        Family(
            "queue_messages_published_total",
            Kind.COUNTER,
            "Total number of messages published to queues",
            "message_stats.publish",
            total="routed",
        ),
    ),
)
