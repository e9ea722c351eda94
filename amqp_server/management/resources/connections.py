"""Connections: `/api/connections`, and those of a virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.answers import NO_CONTENT, AnyAnswer, ok
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import list_answer
from amqp_server.management.http.ranges import OCTETS, Ranges, add_counters, parse_ranges
from amqp_server.management.http.routes import Route
from amqp_server.management.resources.channels import show_channels
from amqp_server.management.resources.erlang import add_process
from amqp_server.management.resources.row_shapes import row_shape
from amqp_server.management.resources.visible import (
    demand_own,
    find_connection,
    own_or_all,
    without_unset,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.mirror import Row

DEFAULT_REASON: Final = "Closed via management plugin"
REASON_CHARACTERS_MAX: Final = 200


def connection_view(node: str, ranges: Ranges) -> Callable[[Row], dict[str, Any]]:
    """Return what shows a connection.

    Args:
        node: Name of the node.
        ranges: Which past values are shown.
    """

    def show(row: Row) -> dict[str, Any]:
        shown = without_unset(row.fields)
        shown["node"] = node
        shown.setdefault("protocol", "AMQP 0-9-1")
        shown.setdefault("type", "network")
        shown.setdefault("user_who_performed_action", shown.get("user", ""))
        shown.setdefault("client_properties", {})
        shown.setdefault("ssl", False)
        for name in ("recv_cnt", "send_cnt", "send_pend"):
            shown.setdefault(name, 0)
        add_counters(shown, row, OCTETS, ranges.data_rates)
        add_process(shown)
        return shown

    return show


class _Connections:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._node = parts.settings.node_name

    async def list(self, call: Call) -> AnyAnswer:
        return await self._parts.rendered.answer(call, lambda: self._list(call))

    async def _list(self, call: Call) -> AnyAnswer:
        view = connection_view(self._node, parse_ranges(call.query))
        mirror = self._parts.mirror
        await mirror.refresh()
        rows = own_or_all(mirror.connections, call.user, call.segments.get("vhost"))
        return await list_answer(call.query, rows, row_shape(view, ("vhost", "name")))

    async def show(self, call: Call) -> AnyAnswer:
        view = connection_view(self._node, parse_ranges(call.query))
        row = await find_connection(self._parts, call.segments["name"], call.user)
        return ok(select_columns(view(row), parse_list_query(call.query).columns))

    async def close(self, call: Call) -> AnyAnswer:
        name = call.segments["name"]
        await find_connection(self._parts, name, call.user, is_change=True)
        arguments = {"name": name, "reason": _reason(call)}
        await self._parts.broker.call("connections.close", arguments, actor=call.actor)
        return NO_CONTENT

    async def channels(self, call: Call) -> AnyAnswer:
        row = await find_connection(self._parts, call.segments["name"], call.user)
        name = row.fields["name"]
        rows = [
            each
            for each in self._parts.mirror.channels.values()
            if each.fields["connection_details"]["name"] == name
        ]
        return await show_channels(self._parts, call, rows)

    # Those of a user

    async def of_user(self, call: Call) -> AnyAnswer:
        user = call.segments["user"]
        demand_own(user, call.user)
        await self._parts.mirror.refresh()
        shown = [
            {
                **{key: row.fields[key] for key in ("name", "vhost", "user")},
                "node": self._node,
            }
            for row in self._parts.mirror.connections.values()
            if row.fields["user"] == user
        ]
        return ok(shown)

    async def close_of_user(self, call: Call) -> AnyAnswer:
        user = call.segments["user"]
        demand_own(user, call.user, is_change=True)
        arguments = {"user": user, "reason": _reason(call)}
        await self._parts.broker.call("connections.close_user", arguments, actor=call.actor)
        return NO_CONTENT


def _reason(call: Call) -> str:
    return call.headers.get("X-Reason", DEFAULT_REASON)[:REASON_CHARACTERS_MAX]


def routes(parts: Parts) -> list[Route]:
    """Return the routes of connections."""
    connections = _Connections(parts)
    one, of_user = "/api/connections/{name}", "/api/connections/username/{user}"
    return [
        Route("GET", "/api/connections", connections.list),
        Route("GET", "/api/vhosts/{vhost}/connections", connections.list),
        Route("GET", one, connections.show),
        Route("DELETE", one, connections.close),
        Route("GET", f"{one}/channels", connections.channels),
        Route("GET", of_user, connections.of_user),
        Route("DELETE", of_user, connections.close_of_user),
    ]
