"""The whole server, with the name of its cluster: `/api/overview`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.base.compatible_version import compatible_version
from amqp_server.management.http.answers import AnyAnswer, ok
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.ranges import (
    DEPTHS,
    MESSAGE_STATS,
    Ranges,
    add_counters,
    add_message_stats,
    details,
    parse_ranges,
)
from amqp_server.management.http.routes import Route
from amqp_server.management.resources.erlang import ERLANG_FULL_VERSION, ERLANG_VERSION
from amqp_server.management.resources.visible import in_visible_vhosts, own_or_all

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call, User
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.mirror import Mirror, Row
    from amqp_server.management.settings import ManagementSettings

PRODUCT_NAME: Final = "amqp-server"
_CLUSTER_NAME: Final = "cluster_name"
CHURN: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
EXCHANGE_TYPES: Final = (
    ("direct", "Routes by the whole routing key"),
    ("fanout", "Routes to every binding"),
    ("headers", "Routes by headers"),
    ("topic", "Routes by patterns of words"),
    ("x-consistent-hash", "Spreads routing keys over queues"),
    ("x-delayed-message", "Routes after a delay"),
)
_RETENTION: Final = {
    "global": [600, 3600, 28800, 86400],
    "basic": [600, 3600],
    "detailed": [600],
}


def exchange_types() -> list[dict[str, Any]]:
    """Return the types of exchanges as clients see them."""
    return [
        {"name": name, "description": description, "enabled": True}
        for name, description in EXCHANGE_TYPES
    ]


def listeners(settings: ManagementSettings) -> list[dict[str, Any]]:
    """Return the listeners of the node: for AMQP, for HTTP and for metrics."""
    found = [
        {"protocol": protocol, "ip_address": host, "port": port}
        for host, port, protocol in settings.amqp_listeners
    ]
    for each in settings.listeners:
        protocol = "http/prometheus" if each.kind == "metrics" else "http"
        if each.is_tls and each.kind == "http":
            protocol = "https"
        found.append({"protocol": protocol, "ip_address": each.host, "port": each.port})
    return [{"node": settings.node_name, **each, "socket_opts": {}} for each in found]


def contexts(settings: ManagementSettings) -> list[dict[str, Any]]:
    """Return what is served by HTTP, and where."""
    return [
        {
            "description": "Prometheus" if each.kind == "metrics" else "Management",
            "path": "/",
            "ip": each.host,
            "port": str(each.port),
            "ssl_opts": [],
            "cowboy_opts": "[]",
            "node": settings.node_name,
        }
        for each in settings.listeners
    ]


class _Overview:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def show(self, call: Call) -> AnyAnswer:
        ranges = parse_ranges(call.query)
        mirror, settings = self._parts.mirror, self._parts.settings
        await mirror.refresh()
        version = compatible_version(settings.presented_version)
        name = await cluster_name(self._parts)
        shown: dict[str, Any] = {
            "management_version": version,
            "rabbitmq_version": version,
            "product_version": settings.server_version,
            "product_name": PRODUCT_NAME,
            "cluster_name": name,
            "rates_mode": "basic",
            "sample_retention_policies": _RETENTION,
            "exchange_types": exchange_types(),
            "cluster_tags": {},
            "node_tags": {},
            "erlang_version": ERLANG_VERSION,
            "erlang_full_version": ERLANG_FULL_VERSION,
            "release_series_support_status": "supported",
            "disable_stats": False,
            "enable_queue_totals": False,
            "default_queue_type": "classic",
            "is_op_policy_updating_enabled": True,
            "statistics_db_event_queue": 0,
        }
        if call.user.is_monitor:
            _add_totals(shown, mirror, ranges)
            shown["node"] = settings.node_name
            shown["listeners"] = listeners(settings)
            shown["contexts"] = contexts(settings)
        else:
            _add_visible_totals(shown, mirror, call.user, ranges)
        return ok(select_columns(shown, parse_list_query(call.query).columns))


def _add_totals(shown: dict[str, Any], mirror: Mirror, ranges: Ranges) -> None:
    overview = mirror.overview
    shown["object_totals"] = overview.fields.get("object_totals", {})
    totals: dict[str, Any] = {}
    add_counters(totals, overview, DEPTHS, ranges.lengths)
    shown["queue_totals"] = totals
    churn: dict[str, Any] = {}
    add_counters(churn, overview, CHURN, ranges.msg_rates)
    shown["churn_rates"] = churn
    add_message_stats(shown, overview, MESSAGE_STATS, ranges.msg_rates)
    shown.setdefault("message_stats", {})


def _add_visible_totals(shown: dict[str, Any], mirror: Mirror, user: User, ranges: Ranges) -> None:
    """Add the totals of the virtual hosts that a user sees, and of its own connections."""
    vhosts = [row for name, row in mirror.vhosts.items() if name in user.vhosts]
    shown["object_totals"] = {
        "connections": len(own_or_all(mirror.connections, user)),
        "channels": len(own_or_all(mirror.channels, user)),
        "exchanges": len(in_visible_vhosts(mirror.exchanges, user)),
        "queues": len(in_visible_vhosts(mirror.queues, user)),
        "consumers": sum(
            row.fields["queue"]["vhost"] in user.vhosts for row in mirror.consumers.values()
        ),
    }
    totals: dict[str, Any] = {}
    for name in DEPTHS:
        totals[name] = sum(row.fields.get(name, 0) for row in vhosts)
        totals[f"{name}_details"] = {"rate": sum(row.rate(name) for row in vhosts)}
    shown["queue_totals"] = totals
    churn: dict[str, Any] = {}
    add_counters(churn, mirror.overview, CHURN, ranges.msg_rates)
    shown["churn_rates"] = churn
    shown["message_stats"] = _sums(vhosts, ranges)


def _sums(vhosts: list[Row], ranges: Ranges) -> dict[str, Any]:
    """Return the message statistics of several virtual hosts together."""
    found: dict[str, Any] = {}
    stats = [row.fields.get("message_stats") or {} for row in vhosts]
    if not any(stats):
        return found
    for name in MESSAGE_STATS:
        found[name] = sum(each.get(name, 0) for each in stats)
        parts = [details(row, f"message_stats.{name}", ranges.msg_rates) for row in vhosts]
        found[f"{name}_details"] = _added(parts)
    return found


def _added(parts: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {"rate": sum(part["rate"] for part in parts)}
    if "samples" in parts[0]:
        total["samples"] = [
            {"sample": sum(each["sample"] for each in same), "timestamp": same[0]["timestamp"]}
            for same in zip(*(part["samples"] for part in parts), strict=True)
        ]
        total["avg_rate"] = sum(part["avg_rate"] for part in parts)
        total["avg"] = sum(part["avg"] for part in parts)
    return total


def routes(parts: Parts) -> list[Route]:
    """Return the route of the whole server."""
    return [Route("GET", "/api/overview", _Overview(parts).show)]


async def cluster_name(parts: Parts) -> str:
    """Return the name of the cluster: the one that was set, or that of the node."""
    rows = await parts.broker.call("global_parameters.list")
    found = [row["value"] for row in rows if row["name"] == _CLUSTER_NAME]
    return found[0] if found and isinstance(found[0], str) else parts.settings.node_name
