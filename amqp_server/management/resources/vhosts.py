"""Virtual hosts, to read: `/api/vhosts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.management.http.answers import AnyAnswer, not_found, ok
from amqp_server.management.http.call import Tag
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import list_answer
from amqp_server.management.http.ranges import (
    DEPTHS,
    MESSAGE_STATS,
    OCTETS,
    Ranges,
    add_counters,
    add_message_stats,
    parse_ranges,
)
from amqp_server.management.http.routes import Route
from amqp_server.management.resources.row_shapes import row_shape
from amqp_server.management.resources.visible import without_unset

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.mirror import Row


def vhost_view(node: str, ranges: Ranges) -> Callable[[Row], dict[str, Any]]:
    """Return what shows a virtual host.

    Args:
        node: Name of the node.
        ranges: Which past values are shown.
    """

    def show(row: Row) -> dict[str, Any]:
        shown = without_unset(row.fields)
        shown.setdefault("description", "")
        shown.setdefault("tags", [])
        shown.setdefault("default_queue_type", "undefined")
        shown.setdefault("tracing", False)
        shown.setdefault("protected_from_deletion", False)
        shown["metadata"] = {
            "description": shown["description"],
            "tags": shown["tags"],
            "default_queue_type": shown["default_queue_type"],
        }
        shown["cluster_state"] = {node: "running"}
        add_counters(shown, row, DEPTHS, ranges.lengths)
        add_counters(shown, row, OCTETS, ranges.data_rates)
        add_message_stats(shown, row, MESSAGE_STATS, ranges.msg_rates)
        return shown

    return show


class _Vhosts:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._node = parts.settings.node_name

    async def list(self, call: Call) -> AnyAnswer:
        return await self._parts.rendered.answer(call, lambda: self._list(call))

    async def _list(self, call: Call) -> AnyAnswer:
        view = vhost_view(self._node, parse_ranges(call.query))
        await self._parts.mirror.refresh()
        rows = [
            row
            for name, row in self._parts.mirror.vhosts.items()
            if call.user.is_monitor or name in call.user.vhosts
        ]
        return await list_answer(call.query, rows, row_shape(view, ("name",)))

    async def show(self, call: Call) -> AnyAnswer:
        view = vhost_view(self._node, parse_ranges(call.query))
        await self._parts.mirror.refresh()
        row = self._parts.mirror.vhosts.get(call.segments["vhost"])
        if row is None:
            raise not_found()
        return ok(select_columns(view(row), parse_list_query(call.query).columns))


def routes(parts: Parts) -> list[Route]:
    """Return the routes that show virtual hosts."""
    vhosts = _Vhosts(parts)
    return [
        Route("GET", "/api/vhosts", vhosts.list),
        Route("GET", "/api/vhosts/{vhost}", vhosts.show, Tag.ADMINISTRATOR),
    ]
