"""Metrics of each exchange and virtual host."""

from __future__ import annotations

from typing import Final

from amqp_server.management.metrics.family import Family, FamilyGroup, Kind, Sum
from amqp_server.management.metrics.object_sets import NAMED_EXCHANGES, USED_EXCHANGES, VHOSTS

EXCHANGE_PUBLISHES: Final = FamilyGroup(
    "exchange_metrics",
    USED_EXCHANGES,
    (
        Family(
            "exchange_messages_published_total",
            Kind.COUNTER,
            "Total number of messages published into an exchange",
            "message_stats.publish_in",
            total="message_stats.publish",
        ),
        Family(
            "exchange_messages_confirmed_total",
            Kind.COUNTER,
            "Total number of messages published into an exchange and confirmed",
            "message_stats.confirm",
            total="message_stats.confirm",
        ),
        Family(
            "exchange_messages_unroutable_returned_total",
            Kind.COUNTER,
            "Total number of messages published as mandatory into an exchange and returned to "
            "the publisher as unroutable",
            "message_stats.return_unroutable",
            total="message_stats.return_unroutable",
        ),
        Family(
            "exchange_messages_unroutable_dropped_total",
            Kind.COUNTER,
            "Total number of messages published as non-mandatory into an exchange and dropped "
            "as unroutable",
            "message_stats.drop_unroutable",
            total="message_stats.drop_unroutable",
        ),
    ),
)

VHOST_STATUS: Final = FamilyGroup(
    "vhost_status",
    VHOSTS,
    (
        Family(
            "cluster_vhost_status",
            Kind.GAUGE,
            "Whether a given vhost is running",
            "one",
            sum=Sum.ABSENT,
        ),
    ),
    detailed_prefix="rabbitmq_",
)

EXCHANGE_BINDINGS: Final = FamilyGroup(
    "exchange_bindings",
    NAMED_EXCHANGES,
    (
        Family(
            "cluster_exchange_bindings",
            Kind.GAUGE,
            "Number of bindings for an exchange. This value is cluster-wide.",
            "bindings",
            sum=Sum.ABSENT,
        ),
    ),
    detailed_prefix="rabbitmq_",
)

EXCHANGE_NAMES: Final = FamilyGroup(
    "exchange_names",
    NAMED_EXCHANGES,
    (
        Family(
            "cluster_exchange_name",
            Kind.GAUGE,
            "Enumerates exchanges without any additional info. This value is cluster-wide. A "
            "cheaper alternative to `exchange_bindings`",
            "one",
            sum=Sum.ABSENT,
        ),
    ),
    detailed_prefix="rabbitmq_",
)
