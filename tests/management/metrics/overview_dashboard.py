"""What RabbitMQ's own dashboard "RabbitMQ-Overview" (Grafana 10991) asks of Prometheus.

Its 50 questions have few forms: a value, the sum of a value, a rate by node, a share of message
sizes. Each is joined with the identity of the node, by which the dashboard chooses cluster,
namespace and page. Here are the forms, and what is asked in each.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

NAMESPACE: Final = "test"
RANGE: Final = "15s"
"""What Grafana puts for the rates, and for the whole time that is shown."""

_SUMS: Final = (
    "queue_messages_ready",
    "queue_messages_unacked",
    "global_publishers",
    "global_consumers",
    "connections",
    "channels",
    "queues",
)
_RECENT_RATES: Final = ("global_messages_delivered_total", "global_messages_received_total")
_SUMS_BY_NODE: Final = ("queue_messages_ready", "queue_messages_unacked")
_DIFFERENCES: Final = (
    ("disk_space_available_bytes", "disk_space_available_limit_bytes"),
    ("process_max_fds", "process_open_fds"),
)
_RATES_BY_NODE: Final = (
    "global_messages_received_total",
    "global_messages_routed_total",
    "global_messages_confirmed_total",
    "global_messages_unroutable_dropped_total",
    "global_messages_unroutable_returned_total",
    "global_messages_redelivered_total",
    "global_messages_delivered_consume_manual_ack_total",
    "global_messages_delivered_consume_auto_ack_total",
    "global_messages_acknowledged_total",
    "global_messages_delivered_get_auto_ack_total",
    "global_messages_get_empty_total",
    "global_messages_delivered_get_manual_ack_total",
    "queues_declared_total",
    "queues_created_total",
    "queues_deleted_total",
    "channels_opened_total",
    "channels_closed_total",
    "connections_opened_total",
    "connections_closed_total",
)
_VALUES: Final = ("queues", "channels", "connections")
_SIZES: Final = (
    "100.0",
    "1000.0",
    "10000.0",
    "100000.0",
    "1e+06",
    "1e+07",
    "5e+07",
    "1e+08",
    "+Inf",
)
_JOIN: Final = "* on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node)"


def expressions(cluster: str, endpoint: str) -> list[str]:
    """Return the dashboard's expressions, with its variables filled in.

    Args:
        cluster: Name of the cluster.
        endpoint: Label of the page that is looked at.
    """
    found = [f"sum({_joined(name, cluster, endpoint)})" for name in _SUMS]
    found += [f"sum({_joined(f'irate:{name}', cluster, endpoint)})" for name in _RECENT_RATES]
    identity = _identity(cluster, endpoint)
    found.append(f"count({identity})")
    found.append(
        "rabbitmq_erlang_uptime_seconds * on(instance, job) "
        "group_left(rabbitmq_version, erlang_version) rabbitmq_build_info "
        f"{_JOIN} {identity}"
    )
    limit, used = (
        _joined(f"{name}_bytes", cluster, endpoint)
        for name in ("resident_memory_limit", "process_resident_memory")
    )
    found.append(f"({limit}) - ({used})")
    found += [
        f"(rabbitmq_{more} - rabbitmq_{less}) {_JOIN} {identity}" for more, less in _DIFFERENCES
    ]
    found += [
        f"sum({_joined(name, cluster, endpoint)}) by(rabbitmq_node)" for name in _SUMS_BY_NODE
    ]
    found += [
        f"sum({_joined(f'rate:{name}', cluster, endpoint)}) by(rabbitmq_node)"
        for name in _RATES_BY_NODE
    ]
    received, confirmed, by_auto_ack, by_manual_ack = (
        _joined(f"rate:global_messages_{name}_total", cluster, endpoint)
        for name in (
            "received_confirm",
            "confirmed",
            "delivered_consume_auto_ack",
            "delivered_consume_manual_ack",
        )
    )
    found.append(f"sum({received} - {confirmed}) by(rabbitmq_node)")
    found.append(f"sum(({by_auto_ack}) + ({by_manual_ack})) by(rabbitmq_node)")
    found += [_joined(name, cluster, endpoint) for name in _VALUES]
    total, count = (
        f"sum({_joined(f'increase:message_size_bytes_{part}', cluster, endpoint)})"
        for part in ("sum", "count")
    )
    found.append(f"{total} / {count}")
    buckets = [f'increase:message_size_bytes_bucket{{le="{size}"}}' for size in _SIZES]
    below = [f"sum({_joined(bucket, cluster, endpoint)})" for bucket in buckets]
    found.append(f"{below[0]} / {below[-1]}")
    found += [f"({upper} - {lower}) / {below[-1]}" for lower, upper in pairwise(below)]
    return found


def _joined(question: str, cluster: str, endpoint: str) -> str:
    """Return a metric, or `function:metric` over the range, joined with the node's identity."""
    function, _, name = question.rpartition(":")
    value = f"{function}(rabbitmq_{name}[{RANGE}])" if function else f"rabbitmq_{name}"
    return f"{value} {_JOIN} {_identity(cluster, endpoint)}"


def _identity(cluster: str, endpoint: str) -> str:
    return (
        f'rabbitmq_identity_info{{rabbitmq_cluster="{cluster}", namespace="{NAMESPACE}", '
        f'rabbitmq_endpoint="{endpoint}"}}'
    )
