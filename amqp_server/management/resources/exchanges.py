"""Exchanges: `/api/exchanges`. The default exchange is `amq.default` in paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.answers import CREATED, NO_CONTENT, AnyAnswer, ok
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import list_answer
from amqp_server.management.http.ranges import (
    EXCHANGE_STATS,
    Ranges,
    add_message_stats,
    parse_ranges,
)
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import boolean, table, text
from amqp_server.management.resources.pair_details import pair_details
from amqp_server.management.resources.row_shapes import row_shape
from amqp_server.management.resources.visible import (
    find_exchange,
    in_visible_vhosts,
    without_unset,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.mirror import Row

DEFAULT_EXCHANGE: Final = "amq.default"
"""Name of the default exchange in paths; in JSON its name is empty."""
_INNER_USER: Final = "rmq-internal"


def exchange_name(segment: str) -> str:
    """Return the name of an exchange from a segment of a path."""
    return "" if segment == DEFAULT_EXCHANGE else segment


def exchange_view(ranges: Ranges, *, has_stats: bool) -> Callable[[Row], dict[str, Any]]:
    """Return what shows an exchange.

    Args:
        ranges: Which past values are shown.
        has_stats: Whether counters are shown.
    """

    def show(row: Row) -> dict[str, Any]:
        shown = without_unset(row.fields)
        shown.setdefault("user_who_performed_action", _INNER_USER)
        if has_stats:
            add_message_stats(shown, row, EXCHANGE_STATS, ranges.msg_rates)
        else:
            shown.pop("message_stats", None)
        return shown

    return show


class _Exchanges:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def list(self, call: Call) -> AnyAnswer:
        return await self._parts.rendered.answer(call, lambda: self._list(call))

    async def _list(self, call: Call) -> AnyAnswer:
        asked = parse_list_query(call.query)
        show = exchange_view(parse_ranges(call.query), has_stats=asked.has_stats)
        mirror, vhost = self._parts.mirror, call.segments.get("vhost")
        await mirror.refresh()
        if vhost is None:
            rows = in_visible_vhosts(mirror.exchanges, call.user)
        else:
            rows = [row for (where, _), row in mirror.exchanges.items() if where == vhost]
        return await list_answer(call.query, rows, row_shape(show))

    async def show(self, call: Call) -> AnyAnswer:
        asked = parse_list_query(call.query)
        show = exchange_view(parse_ranges(call.query), has_stats=asked.has_stats)
        name = exchange_name(call.segments["name"])
        key = call.segments["vhost"], name
        shown = show(await find_exchange(self._parts, *key))
        if asked.has_stats:
            mirror, node = self._parts.mirror, self._parts.settings.node_name
            shown["incoming"] = pair_details(mirror, node, "publishes", "exchange", key)
            shown["outgoing"] = pair_details(mirror, node, "incoming", "exchange", key)
        return ok(select_columns(shown, asked.columns))

    async def declare(self, call: Call) -> AnyAnswer:
        body = await call.body()
        arguments = {
            "vhost": call.segments["vhost"],
            "name": exchange_name(call.segments["name"]),
            "type": text(body, "type", "direct"),
            "durable": boolean(body, "durable"),
            "auto_delete": boolean(body, "auto_delete"),
            "internal": boolean(body, "internal"),
            "arguments": table(body, "arguments"),
        }
        done = await self._parts.broker.call("exchanges.declare", arguments, actor=call.actor)
        return CREATED if done["created"] else NO_CONTENT

    async def delete(self, call: Call) -> AnyAnswer:
        vhost, name = call.segments["vhost"], exchange_name(call.segments["name"])
        await find_exchange(self._parts, vhost, name)
        arguments = {"vhost": vhost, "name": name, "if_unused": call.flag("if-unused")}
        await self._parts.broker.call("exchanges.delete", arguments, actor=call.actor)
        return NO_CONTENT


def routes(parts: Parts) -> list[Route]:
    """Return the routes of exchanges."""
    exchanges = _Exchanges(parts)
    one = "/api/exchanges/{vhost}/{name}"
    return [
        Route("GET", "/api/exchanges", exchanges.list),
        Route("GET", "/api/exchanges/{vhost}", exchanges.list),
        Route("GET", one, exchanges.show),
        Route("PUT", one, exchanges.declare),
        Route("DELETE", one, exchanges.delete),
    ]
