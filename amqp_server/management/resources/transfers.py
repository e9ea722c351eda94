"""Replays, returns and moves of messages that run: `/api/transfers`. RabbitMQ has none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.management.http.answers import AnyAnswer, bad_request, ok
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import integer

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts


class _Transfers:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker

    async def list(self, call: Call) -> AnyAnswer:
        chosen = {name: call.query.get(name, "") for name in ("vhost", "queue")}
        page = await self._broker.call("transfers.list", chosen, actor=call.actor)
        return ok({"items": page["transfers"], "total": page["total"]})

    async def stop(self, call: Call) -> AnyAnswer:
        number = integer(call.segments, "id", 0)
        if number < 1:
            raise bad_request(["not_a_transfer", number])
        return ok(await self._broker.call("transfers.stop", {"id": number}, actor=call.actor))


def routes(parts: Parts) -> list[Route]:
    """Return the routes of transfers."""
    transfers = _Transfers(parts)
    return [
        Route("GET", "/api/transfers", transfers.list),
        Route("DELETE", "/api/transfers/{id}", transfers.stop),
    ]
