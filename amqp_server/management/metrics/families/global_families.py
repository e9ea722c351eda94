"""Metrics of all virtual hosts together, by protocol and type of queue."""

from __future__ import annotations

from typing import Final

from amqp_server.management.metrics.family import Family, FamilyGroup, Kind
from amqp_server.management.metrics.object_sets import (
    DEAD_LETTER_STRATEGIES,
    PROTOCOLS,
    QUEUE_TYPES,
)

GLOBAL_PUBLISHES: Final = FamilyGroup(
    "global_publishes",
    PROTOCOLS,
    (
        Family(
            "global_messages_received_total",
            Kind.COUNTER,
            "Total number of messages received from publishers",
            "publish",
        ),
        Family(
            "global_messages_received_confirm_total",
            Kind.COUNTER,
            "Total number of messages received from publishers expecting confirmations",
            "publish_confirm",
        ),
        Family(
            "global_messages_routed_total",
            Kind.COUNTER,
            "Total number of messages routed to queues or streams",
            "routed",
        ),
        Family(
            "global_messages_confirmed_total",
            Kind.COUNTER,
            "Total number of messages confirmed to publishers",
            "confirm",
        ),
        Family(
            "global_messages_unroutable_dropped_total",
            Kind.COUNTER,
            "Total number of messages published as non-mandatory into an exchange and dropped "
            "as unroutable",
            "drop_unroutable",
        ),
        Family(
            "global_messages_unroutable_returned_total",
            Kind.COUNTER,
            "Total number of messages published as mandatory into an exchange and returned to "
            "the publisher as unroutable",
            "return_unroutable",
        ),
        Family("global_publishers", Kind.GAUGE, "Current number of publishers", "publishers"),
        Family("global_consumers", Kind.GAUGE, "Current number of consumers", "consumers"),
    ),
)

GLOBAL_DELIVERIES: Final = FamilyGroup(
    "global_deliveries",
    QUEUE_TYPES,
    (
        Family(
            "global_messages_delivered_total",
            Kind.COUNTER,
            "Total number of messages delivered to consumers",
            "delivered",
        ),
        Family(
            "global_messages_delivered_consume_manual_ack_total",
            Kind.COUNTER,
            "Total number of messages delivered to consumers using basic.consume with manual "
            "acknowledgment",
            "deliver",
        ),
        Family(
            "global_messages_delivered_consume_auto_ack_total",
            Kind.COUNTER,
            "Total number of messages delivered to consumers using basic.consume with "
            "automatic acknowledgment",
            "deliver_no_ack",
        ),
        Family(
            "global_messages_delivered_get_manual_ack_total",
            Kind.COUNTER,
            "Total number of messages delivered to consumers using basic.get with manual "
            "acknowledgment",
            "get",
        ),
        Family(
            "global_messages_delivered_get_auto_ack_total",
            Kind.COUNTER,
            "Total number of messages delivered to consumers using basic.get with automatic "
            "acknowledgment",
            "get_no_ack",
        ),
        Family(
            "global_messages_get_empty_total",
            Kind.COUNTER,
            "Total number of times basic.get operations fetched no message",
            "get_empty",
        ),
        Family(
            "global_messages_redelivered_total",
            Kind.COUNTER,
            "Total number of messages redelivered to consumers",
            "redeliver",
        ),
        Family(
            "global_messages_acknowledged_total",
            Kind.COUNTER,
            "Total number of messages acknowledged by consumers",
            "ack",
        ),
    ),
)

GLOBAL_DEAD_LETTERS: Final = FamilyGroup(
    "global_dead_letters",
    DEAD_LETTER_STRATEGIES,
    (
        Family(
            "global_messages_dead_lettered_expired_total",
            Kind.COUNTER,
            "Total number of messages dead-lettered due to message TTL exceeded",
            "expired",
        ),
        Family(
            "global_messages_dead_lettered_maxlen_total",
            Kind.COUNTER,
            "Total number of messages dead-lettered due to overflow drop-head or "
            "reject-publish-dlx",
            "maxlen",
        ),
        Family(
            "global_messages_dead_lettered_rejected_total",
            Kind.COUNTER,
            "Total number of messages dead-lettered due to basic.reject or basic.nack",
            "rejected",
        ),
        Family(
            "global_messages_dead_lettered_delivery_limit_total",
            Kind.COUNTER,
            "Total number of messages dead-lettered due to delivery-limit exceeded",
            "delivery_limit",
        ),
        Family(
            "global_messages_dead_lettered_confirmed_total",
            Kind.COUNTER,
            "Total number of messages dead-lettered and confirmed by target queues",
            "confirmed",
        ),
    ),
)
