"""Policies: `/api/policies` and `/api/operator-policies`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import (
    CREATED,
    NO_CONTENT,
    AnyAnswer,
    bad_request,
    not_found,
    ok,
)
from amqp_server.management.http.call import Tag
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import PLAIN, list_answer
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import require

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts


class _Policies:
    """Policies of one kind.

    Args:
        parts: What handlers use.
        family: Name of the commands.
    """

    def __init__(self, parts: Parts, family: str) -> None:
        self._broker = parts.broker
        self._family = family

    async def show_all(self, call: Call) -> AnyAnswer:
        rows = await self._rows(call.segments.get("vhost", ""))
        seen = [row for row in rows if call.user.sees_vhost(row["vhost"])]
        return await list_answer(call.query, seen, PLAIN, is_paged=False)

    async def show(self, call: Call) -> AnyAnswer:
        name = call.segments["name"]
        for row in await self._rows(call.segments["vhost"]):
            if row["name"] == name:
                return ok(select_columns(row, parse_list_query(call.query).columns))
        raise not_found()

    async def put(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, "pattern", "definition")
        arguments = {
            "vhost": call.segments["vhost"],
            "name": call.segments["name"],
            "policy": {key: value for key, value in body.items() if key != "name"},
        }
        try:
            is_new = await self._broker.call(f"{self._family}.put", arguments, call.actor)
        except BrokerRefused as refused:
            if refused.kind == "invalid_argument":
                raise bad_request(f"Validation failed\n\n{refused.reason}\n") from refused
            raise
        return CREATED if is_new else NO_CONTENT

    async def delete(self, call: Call) -> AnyAnswer:
        arguments = {"vhost": call.segments["vhost"], "name": call.segments["name"]}
        await self._broker.call(f"{self._family}.clear", arguments, call.actor)
        return NO_CONTENT

    async def _rows(self, vhost: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]]
        rows = await self._broker.call(f"{self._family}.list", {"vhost": vhost})
        return rows


def routes(parts: Parts) -> list[Route]:
    """Return the routes of policies."""
    found = []
    for family, path, changes in (
        ("policies", "/api/policies", Tag.POLICYMAKER),
        ("operator_policies", "/api/operator-policies", Tag.ADMINISTRATOR),
    ):
        policies = _Policies(parts, family)
        one = f"{path}/{{vhost}}/{{name}}"
        found += [
            Route("GET", path, policies.show_all),
            Route("GET", f"{path}/{{vhost}}", policies.show_all),
            Route("GET", one, policies.show, changes, checks_vhost=True),
            Route("PUT", one, policies.put, changes, checks_vhost=True),
            Route("DELETE", one, policies.delete, changes, checks_vhost=True),
        ]
    return found
