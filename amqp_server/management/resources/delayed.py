"""What a delayed exchange keeps: `/api/exchanges/V/X/delayed`. RabbitMQ's API has none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import AnyAnswer, bad_request, ok
from amqp_server.management.http.refusals import error_of
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import integer
from amqp_server.management.resources.exchanges import exchange_name

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_ALL: Final = -1


class _Delayed:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker

    async def list(self, call: Call) -> AnyAnswer:
        limit = integer(call.query, "limit", 100)
        page = await self._ask(call, "exchanges.delayed", limit=limit)
        return ok({"items": page.pop("rows"), **page})

    async def cancel_all(self, call: Call) -> AnyAnswer:
        return ok(await self._ask(call, "exchanges.cancel_delayed", offset=_ALL))

    async def cancel(self, call: Call) -> AnyAnswer:
        offset = integer(call.segments, "offset", _ALL)
        if offset < 0:
            raise bad_request(["not_an_offset", offset])
        return ok(await self._ask(call, "exchanges.cancel_delayed", offset=offset))

    async def _ask(self, call: Call, command: str, **arguments: int) -> dict[str, Any]:
        place = {
            "vhost": call.segments["vhost"],
            "name": exchange_name(call.segments["name"]),
        }
        try:
            return dict(await self._broker.call(command, {**place, **arguments}, actor=call.actor))
        except BrokerRefused as refused:
            # An exchange of another type is the client's mistake.
            is_failed = str(refused.kind) == "failed"
            raise (bad_request(refused.reason) if is_failed else error_of(refused)) from refused


def routes(parts: Parts) -> list[Route]:
    """Return the routes of delayed messages."""
    delayed = _Delayed(parts)
    all_of_one = "/api/exchanges/{vhost}/{name}/delayed"
    return [
        Route("GET", all_of_one, delayed.list),
        Route("DELETE", all_of_one, delayed.cancel_all),
        Route("DELETE", all_of_one + "/{offset}", delayed.cancel),
    ]
