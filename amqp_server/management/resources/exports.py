"""What exports of the logs have done: `/api/exports`. RabbitMQ has none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        return ok(await self._broker.call("exports.list", {}, actor=call.actor))


def routes(parts: Parts) -> list[Route]:
    """Return the route of exports."""
    return [Route("GET", "/api/exports", _Exports(parts).list, Tag.MONITORING)]
