"""What exports of the logs have done: `/api/exports`. RabbitMQ has none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.management.http.answers import AnyAnswer, ok
from amqp_server.management.http.call import Tag
from amqp_server.management.http.routes import Route

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts


class _Exports:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker

    async def list(self, call: Call) -> AnyAnswer:
        found = await self._broker.call("exports.list", {}, actor=call.actor)
        return ok(of_vhost(found, call.query["vhost"]) if call.query.get("vhost") else found)


def of_vhost(found: dict[str, Any], vhost: str) -> dict[str, Any]:
    """Return the exports of a virtual host with its queues only, and its readers.

    Args:
        found: Result of `exports.list`.
        vhost: Virtual host.
    """
    exports = [
        {**each, "queues": [queue for queue in each["queues"] if queue["vhost"] == vhost]}
        for each in found["exports"]
        if each["settings"].get("vhost") == vhost
        or any(queue["vhost"] == vhost for queue in each["queues"])
    ]
    readers = [each for each in found["readers"] if each["vhost"] == vhost]
    return {**found, "exports": exports, "readers": readers}


def routes(parts: Parts) -> list[Route]:
    """Return the route of exports."""
    return [Route("GET", "/api/exports", _Exports(parts).list, Tag.MONITORING)]
