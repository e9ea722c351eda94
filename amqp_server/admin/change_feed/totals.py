"""Counters of the whole server, and of a virtual host, by RabbitMQ's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.broker.counters.broker_counters import AMQP, BOUNDS_BYTES, HTTP
from amqp_server.broker.counters.delivery_counters import DeliveryCounters
from amqp_server.broker.counters.vhost_counters import VhostCounters

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker


def publish_stats(counters: VhostCounters) -> dict[str, int]:
    """Return the counters of publishes."""
    publishes = counters.publishes
    return {
        "publish": publishes.publish,
        "confirm": publishes.confirm,
        "return_unroutable": publishes.return_unroutable,
        "drop_unroutable": publishes.drop_unroutable,
    }


def delivery_stats(counters: DeliveryCounters) -> dict[str, int]:
    """Return the counters of deliveries."""
    return {
        "delivered": counters.deliver + counters.deliver_no_ack,
        "deliver": counters.deliver,
        "deliver_no_ack": counters.deliver_no_ack,
        "get": counters.get,
        "get_no_ack": counters.get_no_ack,
        "redeliver": counters.redelivered,
        "ack": counters.ack,
        "get_empty": counters.get_empty,
    }


def message_stats(counters: VhostCounters) -> dict[str, int]:
    """Return all counters of messages; those of deliveries are summed over the types of queue."""
    deliveries = DeliveryCounters()
    for each in counters.deliveries.values():
        deliveries.add(each)
    stats = publish_stats(counters) | delivery_stats(deliveries)
    del stats["delivered"]
    return stats


def broker_totals(broker: Broker) -> dict[str, Any]:
    """Return the counters of the whole server as JSON values. O(virtual hosts)."""
    counters = VhostCounters()
    counters.add(broker.ended_counters)
    for vhost in tuple(broker.vhosts.values()):
        counters.add(vhost.counters)
    sizes = broker.message_sizes
    return {
        "message_stats": message_stats(counters),
        **publish_stats(counters),
        "publish_confirm": counters.publishes.awaiting_confirm,
        "routed": counters.publishes.routed,
        "queue_types": {
            kind.value: delivery_stats(each) for kind, each in counters.deliveries.items()
        },
        "recv_oct": counters.recv_oct,
        "send_oct": counters.send_oct,
        **broker.churn.as_json(),
        "auth_attempts": broker.auth_attempts.of(AMQP),
        "auth_attempts_http": broker.auth_attempts.of(HTTP),
        "dead_letters": broker.dead_letter_counts.as_json(),
        "dead_letter_cycles": broker.dead_letter_counts.cycles,
        "message_size_bytes": {
            "bounds": BOUNDS_BYTES,
            "counts": list(sizes.counts),
            "sum": sizes.total_bytes,
        },
    }
