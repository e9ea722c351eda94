"""Parameters of virtual hosts: `/api/parameters`.

Operator policies and limits of virtual hosts are among them, as in RabbitMQ. They and shovels have
an effect; the others are kept for other programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import (
    CREATED,
    NO_CONTENT,
    AnyAnswer,
    ApiError,
    bad_request,
    not_found,
    ok,
)
from amqp_server.management.http.call import Tag
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import PLAIN, Shape, list_answer, value_of_object
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
KEPT: Final = ("shovel", "federation-upstream", "federation-upstream-set")
"""Components whose parameters are kept."""
_LIMITS_NAME: Final = "limits"
_SHAPE: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show, name=PLAIN.name, value=value_of_object, order=("vhost", "component", "name")
)


class _Parameters:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker

    async def show_all(self, call: Call) -> AnyAnswer:
        rows = await self._rows(call)
        seen = [row for row in rows if call.user.sees_vhost(row["vhost"])]
        return await list_answer(call.query, seen, _SHAPE, is_paged=False)

    async def show(self, call: Call) -> AnyAnswer:
        for row in await self._rows(call):
            if row["name"] == call.segments["name"]:
                return ok(select_columns(row, parse_list_query(call.query).columns))
        raise not_found()

    async def put(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, "value")
        component, value = call.segments["component"], body["value"]
        place = {"vhost": call.segments["vhost"], "name": call.segments["name"]}
        try:
            is_new = await self._set(call, component, place, value)
        except BrokerRefused as refused:
            if refused.kind == "invalid_argument":
                raise _invalid(refused.reason) from refused
            raise
        return CREATED if is_new else NO_CONTENT

    async def _set(self, call: Call, component: str, place: dict[str, str], value: object) -> bool:
        if component == "policy":
            raise bad_request("policies may not be set using this method")
        if component in (OPERATOR_POLICY, VHOST_LIMITS):
            # What its own path demands.
            call.user.demand(Tag.ADMINISTRATOR)
            if not isinstance(value, dict):
                raise _invalid("the value must be an object")
            return await self._set_ours(call, component, place, value)
        if component not in KEPT:
            raise _invalid(f"component {component} not found")
        if not isinstance(value, dict):
            raise _invalid(f"the value of {place['name']} must be an object")
        arguments = {**place, "component": component, "value": {"value": value}}
        return bool(await self._broker.call("parameters.set", arguments, call.actor))

    async def _set_ours(
        self, call: Call, component: str, place: dict[str, str], value: dict[str, Any]
    ) -> bool:
        if component == OPERATOR_POLICY:
            policy = {**place, "policy": value}
            return bool(await self._broker.call("operator_policies.put", policy, call.actor))
        if place["name"] != _LIMITS_NAME:
            raise _invalid(f"the limits of a virtual host have the name {_LIMITS_NAME}")
        limits = {"kind": "vhost", "name": place["vhost"], "limits": value, "replace": True}
        changed = await self._broker.call("limits.set", limits, call.actor)
        return not changed["before"]

    async def delete(self, call: Call) -> AnyAnswer:
        component = call.segments["component"]
        place = {"vhost": call.segments["vhost"], "name": call.segments["name"]}
        if component in (OPERATOR_POLICY, VHOST_LIMITS):
            call.user.demand(Tag.ADMINISTRATOR)
        if component == OPERATOR_POLICY:
            await self._broker.call("operator_policies.clear", place, call.actor)
        elif component == VHOST_LIMITS and place["name"] == _LIMITS_NAME:
            limits: dict[str, object] = {"kind": "vhost", "name": place["vhost"], "limits": []}
            changed = await self._broker.call("limits.clear", limits, call.actor)
            if not changed["before"]:
                raise not_found()
        else:
            arguments = {**place, "component": component}
            if not await self._broker.call("parameters.clear", arguments, call.actor):
                raise not_found()
        return NO_CONTENT

    async def _rows(self, call: Call) -> list[dict[str, Any]]:
        names = ("component", "vhost")
        wanted = {name: call.segments[name] for name in names if name in call.segments}
        rows: list[dict[str, Any]] = await self._broker.call("parameters.list", wanted)
        return rows


def _invalid(fault: str) -> ApiError:
    return bad_request(f"Validation failed\n\n{fault}\n")


def routes(parts: Parts) -> list[Route]:
    """Return the routes of parameters."""
    parameters = _Parameters(parts)
    maker = Tag.POLICYMAKER
    path = "/api/parameters"
    vhost = f"{path}/{{component}}/{{vhost}}"
    one = f"{vhost}/{{name}}"
    return [
        Route("GET", path, parameters.show_all, maker),
        Route("GET", f"{path}/{{component}}", parameters.show_all, maker),
        Route("GET", vhost, parameters.show_all, maker, checks_vhost=True),
        Route("GET", one, parameters.show, maker, checks_vhost=True),
        Route("PUT", one, parameters.put, maker, checks_vhost=True),
        Route("DELETE", one, parameters.delete, maker, checks_vhost=True),
    ]
