"""Queues: `/api/queues`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.answers import (
    CREATED,
    NO_CONTENT,
    AnyAnswer,
    bad_request,
    ok,
)
from amqp_server.management.http.call import Tag
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import list_answer
from amqp_server.management.http.ranges import (
    DEPTHS,
    QUEUE_STATS,
    Ranges,
    add_counters,
    add_message_stats,
    parse_ranges,
)
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import boolean, table, text
from amqp_server.management.resources.consumers import consumers_of_queue
from amqp_server.management.resources.erlang import add_process
from amqp_server.management.resources.pair_details import pair_details
from amqp_server.management.resources.row_shapes import row_shape
from amqp_server.management.resources.visible import (
    find_queue,
    in_visible_vhosts,
    without_unset,
)

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.mirror import Row

DEFINED: Final = (
    "name",
    "vhost",
    "type",
    "durable",
    "auto_delete",
    "exclusive",
    "arguments",
    "state",
    "policy",
    "operator_policy",
    "effective_policy_definition",
)
"""Fields of a queue without its counters."""
_REPLICATED: Final = ("quorum", "stream")
_ACTIONS: Final = ("sync", "cancel_sync")


class QueueView:
    """Shows queues.

    Args:
        node: Name of the node.
        ranges: Which past values are shown.
        has_stats: Whether counters are shown.
        has_totals: Without counters: whether numbers of messages are shown.
    """

    def __init__(
        self,
        node: str,
        ranges: Ranges,
        *,
        has_stats: bool = True,
        has_totals: bool = False,
    ) -> None:
        self._node = node
        self._ranges = ranges
        self._has_stats = has_stats
        self._has_totals = has_totals

    def show(self, row: Row) -> dict[str, Any]:
        """Return a queue as clients see it."""
        if not self._has_stats:
            return self._defined(row)
        shown = without_unset(row.fields)
        shown["node"] = self._node
        if shown.get("type") in _REPLICATED:
            shown["leader"] = self._node
            shown["members"] = shown["online"] = [self._node]
            if shown["type"] == "stream":
                shown["readers"] = {self._node: shown.get("consumers", 0)}
        add_counters(shown, row, DEPTHS, self._ranges.lengths)
        add_message_stats(shown, row, QUEUE_STATS, self._ranges.msg_rates)
        shown.setdefault("effective_policy_definition", {})
        # The name of the same before RabbitMQ 3.8.
        shown["consumer_utilisation"] = shown.get("consumer_capacity", 0)
        shown["backing_queue_status"] = {}
        add_process(shown)
        return shown

    def _defined(self, row: Row) -> dict[str, Any]:
        fields = row.fields
        shown = {name: fields[name] for name in DEFINED if fields.get(name) is not None}
        shown["node"] = self._node
        if self._has_totals:
            shown |= {name: fields.get(name, 0) for name in DEPTHS}
        return shown


class _Queues:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._node = parts.settings.node_name

    async def list(self, call: Call) -> AnyAnswer:
        return await self._parts.rendered.answer(call, lambda: self._list(call))

    async def _list(self, call: Call) -> AnyAnswer:
        asked = parse_list_query(call.query)
        view = QueueView(
            self._node,
            parse_ranges(call.query),
            has_stats=asked.has_stats,
            has_totals=asked.has_totals,
        )
        mirror = self._parts.mirror
        await mirror.refresh()
        vhost = call.segments.get("vhost")
        if vhost is None:
            rows = in_visible_vhosts(mirror.queues, call.user)
        else:
            rows = [row for (where, _), row in mirror.queues.items() if where == vhost]
        return await list_answer(call.query, rows, row_shape(view.show))

    async def show(self, call: Call) -> AnyAnswer:
        asked = parse_list_query(call.query)
        vhost, name = call.segments["vhost"], call.segments["name"]
        ranges = parse_ranges(call.query)
        row = await find_queue(self._parts, vhost, name)
        shown = QueueView(self._node, ranges, has_stats=asked.has_stats).show(row)
        if asked.has_stats:
            mirror = self._parts.mirror
            shown["consumer_details"] = consumers_of_queue(mirror, self._node, vhost, name)
            for kind in ("incoming", "deliveries"):
                shown[kind] = pair_details(mirror, self._node, kind, "queue", (vhost, name))
        return ok(select_columns(shown, asked.columns))

    async def declare(self, call: Call) -> AnyAnswer:
        body = await call.body()
        arguments = {
            "vhost": call.segments["vhost"],
            "name": call.segments["name"],
            "durable": boolean(body, "durable"),
            "auto_delete": boolean(body, "auto_delete"),
            "arguments": table(body, "arguments"),
        }
        done = await self._parts.broker.call("queues.declare", arguments, actor=call.actor)
        return CREATED if done["created"] else NO_CONTENT

    async def delete(self, call: Call) -> AnyAnswer:
        vhost, name = call.segments["vhost"], call.segments["name"]
        await find_queue(self._parts, vhost, name)
        arguments = {
            "vhost": vhost,
            "name": name,
            "if_empty": call.flag("if-empty"),
            "if_unused": call.flag("if-unused"),
        }
        await self._parts.broker.call("queues.delete", arguments, actor=call.actor)
        return NO_CONTENT

    async def purge(self, call: Call) -> AnyAnswer:
        vhost, name = call.segments["vhost"], call.segments["name"]
        row = await find_queue(self._parts, vhost, name)
        if row.fields.get("type") == "stream":
            raise bad_request(
                f"queue.purge not supported by stream queues queue '{name}' in vhost '{vhost}'"
            )
        arguments = {"vhost": vhost, "name": name}
        await self._parts.broker.call("queues.purge", arguments, actor=call.actor)
        return NO_CONTENT

    async def act(self, call: Call) -> AnyAnswer:
        body = await call.body()
        await find_queue(self._parts, call.segments["vhost"], call.segments["name"])
        if "action" not in body:
            raise bad_request("[{key_missing,action}]")
        action = text(body, "action", "")
        if action not in _ACTIONS:
            raise bad_request(["unknown", action])
        return NO_CONTENT


def routes(parts: Parts) -> list[Route]:
    """Return the routes of queues."""
    queues = _Queues(parts)
    one = "/api/queues/{vhost}/{name}"
    return [
        Route("GET", "/api/queues", queues.list),
        Route("GET", "/api/queues/detailed", queues.list),
        Route("GET", "/api/queues/{vhost}", queues.list),
        Route("GET", one, queues.show),
        Route("PUT", one, queues.declare),
        Route("DELETE", one, queues.delete),
        Route("DELETE", f"{one}/contents", queues.purge),
        Route("POST", f"{one}/actions", queues.act, Tag.ADMINISTRATOR, checks_vhost=True),
    ]
