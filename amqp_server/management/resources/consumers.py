"""Consumers: `/api/consumers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.management.http.lists import list_answer
from amqp_server.management.http.routes import Route
from amqp_server.management.resources.row_shapes import row_shape
from amqp_server.management.resources.visible import is_own_or_all, without_unset

if TYPE_CHECKING:
    from amqp_server.management.http.answers import AnyAnswer
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.mirror import Mirror, Row


def show_consumer(row: Row, node: str) -> dict[str, Any]:
    """Return a consumer as clients see it.

    Args:
        row: The consumer.
        node: Name of the node.
    """
    shown = without_unset(row.fields)
    shown["channel_details"] = {**shown.get("channel_details", {}), "node": node}
    shown.setdefault("arguments", {})
    # A typed client needs a number; RabbitMQ leaves it out.
    shown.setdefault("consumer_timeout", 0)
    return shown


def consumers_of_queue(mirror: Mirror, node: str, vhost: str, name: str) -> list[dict[str, Any]]:
    """Return the consumers of a queue as clients see them."""
    queue = {"name": name, "vhost": vhost}
    return [
        show_consumer(row, node)
        for row in mirror.consumers.values()
        if row.fields["queue"] == queue
    ]


def consumers_of_channel(mirror: Mirror, node: str, channel: str) -> list[dict[str, Any]]:
    """Return the consumers of a channel as clients see them."""
    return [
        show_consumer(row, node) for (owner, _), row in mirror.consumers.items() if owner == channel
    ]


class _Consumers:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._node = parts.settings.node_name

    async def list(self, call: Call) -> AnyAnswer:
        return await self._parts.rendered.answer(call, lambda: self._list(call))

    async def _list(self, call: Call) -> AnyAnswer:
        mirror, vhost = self._parts.mirror, call.segments.get("vhost")
        await mirror.refresh()
        rows = [
            row
            for row in mirror.consumers.values()
            if is_own_or_all(row.fields["channel_details"].get("user", ""), call.user)
            and call.user.sees_vhost(row.fields["queue"]["vhost"])
            and vhost in (None, row.fields["queue"]["vhost"])
        ]
        shape = row_shape(
            lambda row: show_consumer(row, self._node),
            order=("queue.vhost", "queue.name", "consumer_tag"),
        )
        return await list_answer(call.query, rows, shape, is_paged=False)


def routes(parts: Parts) -> list[Route]:
    """Return the routes of consumers."""
    consumers = _Consumers(parts)
    return [
        Route("GET", "/api/consumers", consumers.list),
        Route("GET", "/api/consumers/{vhost}", consumers.list),
    ]
