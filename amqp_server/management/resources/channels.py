"""Channels: `/api/channels`, and those of a virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.management.http.answers import AnyAnswer, not_found, ok
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import list_answer
from amqp_server.management.http.ranges import (
    CHANNEL_STATS,
    Ranges,
    add_message_stats,
    parse_ranges,
)
from amqp_server.management.http.routes import Route
from amqp_server.management.resources.consumers import consumers_of_channel
from amqp_server.management.resources.erlang import add_process
from amqp_server.management.resources.pair_details import pair_details
from amqp_server.management.resources.row_shapes import row_shape
from amqp_server.management.resources.visible import demand_own, own_or_all, without_unset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.mirror import Row

_COUNTS = (
    "messages_unacknowledged",
    "messages_unconfirmed",
    "messages_uncommitted",
    "acks_uncommitted",
    "pending_raft_commands",
    "prefetch_count",
    "global_prefetch_count",
    "consumer_count",
)


def channel_view(node: str, ranges: Ranges) -> Callable[[Row], dict[str, Any]]:
    """Return what shows a channel.

    Args:
        node: Name of the node.
        ranges: Which past values are shown.
    """

    def show(row: Row) -> dict[str, Any]:
        shown = without_unset(row.fields)
        shown["node"] = node
        shown.setdefault("state", "running")
        shown.setdefault("user_who_performed_action", shown.get("user", ""))
        for name in _COUNTS:
            shown.setdefault(name, 0)
        add_message_stats(shown, row, CHANNEL_STATS, ranges.msg_rates)
        add_process(shown)
        return shown

    return show


async def show_channels(parts: Parts, call: Call, rows: Sequence[Row]) -> AnyAnswer:
    """Return a list of channels as a client has asked for it."""
    view = channel_view(parts.settings.node_name, parse_ranges(call.query))
    return await list_answer(call.query, rows, row_shape(view, ("vhost", "name")))


class _Channels:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._node = parts.settings.node_name

    async def list(self, call: Call) -> AnyAnswer:
        return await self._parts.rendered.answer(call, lambda: self._list(call))

    async def _list(self, call: Call) -> AnyAnswer:
        mirror = self._parts.mirror
        await mirror.refresh()
        rows = own_or_all(mirror.channels, call.user, call.segments.get("vhost"))
        return await show_channels(self._parts, call, rows)

    async def show(self, call: Call) -> AnyAnswer:
        mirror, name = self._parts.mirror, call.segments["name"]
        view = channel_view(self._node, parse_ranges(call.query))
        await mirror.refresh()
        row = mirror.channels.get(name)
        if row is None:
            raise not_found()
        demand_own(row.fields["user"], call.user)
        shown = view(row)
        shown["consumer_details"] = consumers_of_channel(mirror, self._node, name)
        for kind in ("publishes", "deliveries"):
            shown[kind] = pair_details(mirror, self._node, kind, "channel", name)
        return ok(select_columns(shown, parse_list_query(call.query).columns))


def routes(parts: Parts) -> list[Route]:
    """Return the routes of channels."""
    channels = _Channels(parts)
    return [
        Route("GET", "/api/channels", channels.list),
        Route("GET", "/api/channels/{name}", channels.show),
        Route("GET", "/api/vhosts/{vhost}/channels", channels.list),
    ]
