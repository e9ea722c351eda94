"""Who changed what: `/api/audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.management.http.answers import AnyAnswer, ok
from amqp_server.management.http.call import Tag
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import integer

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts


class _Audit:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker

    async def list(self, call: Call) -> AnyAnswer:
        arguments = {
            "before": call.query.get("before", ""),
            "limit": integer(call.query, "limit", 100),
            "events": [each for each in call.query.get("event", "").split(",") if each],
            "user": call.query.get("user", ""),
            "vhost": call.query.get("vhost", ""),
        }
        page = await self._broker.call("audit.list", arguments, actor=call.actor)
        return ok({"items": page["events"], "next": page["next"] or None})


def routes(parts: Parts) -> list[Route]:
    """Return the route of the audit log."""
    return [Route("GET", "/api/audit", _Audit(parts).list, Tag.ADMINISTRATOR)]
