"""Metrics of each connection."""

from __future__ import annotations

from typing import Final

from amqp_server.management.metrics.family import Family, FamilyGroup, Kind
from amqp_server.management.metrics.object_sets import CONNECTIONS

CONNECTION_COARSE: Final = FamilyGroup(
    "connection_coarse_metrics",
    CONNECTIONS,
    (
        Family(
            "connection_incoming_bytes_total",
            Kind.COUNTER,
            "Total number of bytes received on a connection",
            "recv_oct",
        ),
        Family(
            "connection_outgoing_bytes_total",
            Kind.COUNTER,
            "Total number of bytes sent on a connection",
            "send_oct",
        ),
        Family(
            "connection_process_reductions_total",
            Kind.COUNTER,
            "Total number of connection process reductions",
            "reductions",
        ),
    ),
)

CONNECTION_DETAILS: Final = FamilyGroup(
    "connection_metrics",
    CONNECTIONS,
    (
        Family(
            "connection_incoming_packets_total",
            Kind.COUNTER,
            "Total number of packets received on a connection",
            "recv_cnt",
        ),
        Family(
            "connection_outgoing_packets_total",
            Kind.COUNTER,
            "Total number of packets sent on a connection",
            "send_cnt",
        ),
        Family(
            "connection_pending_packets",
            Kind.GAUGE,
            "Number of packets waiting to be sent on a connection",
            "send_pend",
        ),
        Family("connection_channels", Kind.GAUGE, "Channels on a connection", "channels"),
    ),
)
