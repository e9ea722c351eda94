"""The node: `/api/nodes`. A server is a cluster of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.base.compatible_version import compatible_version
from amqp_server.management.http.answers import AnyAnswer, not_found, ok
from amqp_server.management.http.call import Tag
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import PLAIN, list_answer
from amqp_server.management.http.ranges import Ranges, add_counters, details, parse_ranges
from amqp_server.management.http.routes import Route
from amqp_server.management.resources.erlang import (
    NO_MEMORY_PARTS,
    NO_METRICS_WAIT,
    NODE_COUNTERS,
)
from amqp_server.management.resources.overview import (
    CHURN,
    contexts,
    exchange_types,
    listeners,
)
from amqp_server.management.resources.visible import without_unset

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_GAUGES: Final = ("mem_used", "disk_free", "fd_used", "sockets_used", "proc_used")
_IO: Final = (
    "io_read_count",
    "io_read_bytes",
    "io_read_avg_time",
    "io_write_count",
    "io_write_bytes",
    "io_write_avg_time",
    "io_sync_count",
    "io_sync_avg_time",
    "io_seek_count",
    "io_seek_avg_time",
    "io_reopen_count",
)
_PROCESS: Final = ("gc_num", "gc_bytes_reclaimed", "context_switches")
_DEFAULTS: Final[dict[str, Any]] = {
    "mem_limit": 0,
    "mem_alarm": False,
    "disk_free_limit": 0,
    "disk_free_alarm": False,
    "disk_stall_alarm": False,
    "fd_total": 0,
    "sockets_total": 0,
    "proc_total": 1048576,
    "uptime": 0,
    "os_pid": "0",
    "processors": 1,
    "run_queue": 0,
    "db_dir": "",
    "log_files": [],
    "config_files": [],
}
_MECHANISMS: Final = (
    ("PLAIN", "SASL PLAIN authentication mechanism"),
    ("AMQPLAIN", "QPid AMQPLAIN mechanism"),
    ("EXTERNAL", "Certificates of TLS clients"),
)


class _Nodes:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = parts.settings

    async def list(self, call: Call) -> AnyAnswer:
        ranges = parse_ranges(call.query)
        await self._parts.mirror.refresh()
        return await list_answer(call.query, [self._shown(ranges)], PLAIN, is_paged=False)

    async def show(self, call: Call) -> AnyAnswer:
        ranges = parse_ranges(call.query)
        await self._parts.mirror.refresh()
        self._check(call)
        shown = self._shown(ranges)
        if call.flag("memory"):
            shown["memory"] = self._memory()
        return ok(select_columns(shown, parse_list_query(call.query).columns))

    async def memory(self, call: Call) -> AnyAnswer:
        await self._parts.mirror.refresh()
        self._check(call)
        return ok({"memory": self._memory()})

    def _check(self, call: Call) -> None:
        if call.segments["node"] != self._settings.node_name:
            raise not_found()

    def _shown(self, ranges: Ranges) -> dict[str, Any]:
        node, overview = self._parts.mirror.node, self._parts.mirror.overview
        settings = self._settings
        version = compatible_version(settings.presented_version)
        shown: dict[str, Any] = {
            **_DEFAULTS,
            **without_unset(node.fields),
            "name": settings.node_name,
            "type": "disc",
            "running": True,
            "being_drained": False,
            "rates_mode": "basic",
            "partitions": [],
            "cluster_links": [],
            "net_ticktime": 60,
            "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus"],
            "mem_calculation_strategy": "rss",
            "applications": [
                {
                    "name": "rabbit",
                    "version": version,
                    "description": "The API of RabbitMQ, served by amqp-server",
                },
                {
                    "name": "amqp-server",
                    "version": settings.server_version,
                    "description": "AMQP 0-9-1 broker",
                },
            ],
            "rabbitmq_version": version,
            "auth_mechanisms": [
                {"name": name, "description": description, "enabled": True}
                for name, description in _MECHANISMS
            ],
            "exchange_types": exchange_types(),
            "contexts": contexts(settings),
            "metrics_gc_queue_length": NO_METRICS_WAIT,
            "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
        }
        # They have a path of their own.
        shown.pop("memory_parts", None)
        shown["db_dir"] = shown["db_dir"] or str(settings.storage_path)
        shown["sockets_total"] = shown["sockets_total"] or shown["fd_total"]
        add_counters(shown, node, (*_GAUGES, *_IO, *_PROCESS, *NODE_COUNTERS), ranges.node_stats)
        # Checks of Nagios take 0 for a value that is not known. The broker is one process, and has
        # the sockets that it listens on.
        shown["proc_used"] = shown["proc_used"] or 1
        shown["sockets_used"] += len(listeners(settings))
        for name in CHURN:
            shown[name] = overview.fields.get(name, 0)
            shown[f"{name}_details"] = details(overview, name, ranges.node_stats)
        return shown

    def _memory(self) -> dict[str, Any]:
        fields = self._parts.mirror.node.fields
        used = fields.get("mem_used", 0)
        parts = fields.get("memory_parts", {})
        known = sum(parts.values())
        return {
            **NO_MEMORY_PARTS,
            **parts,
            "other_system": max(0, used - known),
            "strategy": "rss",
            "total": {"erlang": used, "rss": used, "allocated": used},
        }


def routes(parts: Parts) -> list[Route]:
    """Return the routes of the node."""
    nodes = _Nodes(parts)
    one = "/api/nodes/{node}"
    return [
        Route("GET", "/api/nodes", nodes.list, Tag.MONITORING),
        Route("GET", one, nodes.show, Tag.MONITORING),
        Route("GET", f"{one}/memory", nodes.memory, Tag.MONITORING),
    ]
