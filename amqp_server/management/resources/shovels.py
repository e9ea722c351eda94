"""Shovels: `/api/shovels`. A shovel is set as a parameter: `/api/parameters/shovel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.answers import NO_CONTENT, AnyAnswer, not_found, ok
from amqp_server.management.http.call import Tag
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import PLAIN, Shape, list_answer, value_of_object
from amqp_server.management.http.routes import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_SHAPE: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show, name=PLAIN.name, value=value_of_object, order=("vhost", "name")
)


class _Shovels:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker
        self._node = parts.settings.node_name

    async def show_all(self, call: Call) -> AnyAnswer:
        vhost = call.segments.get("vhost")
        rows = [row for row in await self._rows(call) if vhost in (None, row["vhost"])]
        return await list_answer(call.query, rows, _SHAPE, is_paged=False)

    async def show(self, call: Call) -> AnyAnswer:
        row = await self._find(call)
        return ok(select_columns(row, parse_list_query(call.query).columns))

    async def delete(self, call: Call) -> AnyAnswer:
        await self._find(call)
        arguments = {**_place(call), "component": "shovel"}
        if not await self._broker.call("parameters.clear", arguments, call.actor):
            raise not_found()
        return NO_CONTENT

    async def restart(self, call: Call) -> AnyAnswer:
        await self._find(call)
        await self._broker.call("shovels.restart", _place(call), call.actor)
        return NO_CONTENT

    async def _find(self, call: Call) -> dict[str, Any]:
        """Return the shovel that a path names.

        Raises:
            ApiError: There is none that the user sees.
        """
        place = _place(call)
        for row in await self._rows(call):
            if (row["vhost"], row["name"]) == (place["vhost"], place["name"]):
                return row
        raise not_found()

    async def _rows(self, call: Call) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await self._broker.call("shovels.list", {})
        return [{"node": self._node, **row} for row in rows if call.user.sees_vhost(row["vhost"])]


def _place(call: Call) -> dict[str, str]:
    return {name: call.segments[name] for name in ("vhost", "name")}


def routes(parts: Parts) -> list[Route]:
    """Return the routes of shovels."""
    shovels = _Shovels(parts)
    path = "/api/shovels"
    one = f"{path}/vhost/{{vhost}}/{{name}}"
    return [
        Route("GET", path, shovels.show_all, Tag.MONITORING),
        Route("GET", f"{path}/{{vhost}}", shovels.show_all, Tag.MONITORING, checks_vhost=True),
        Route("GET", f"{path}/{{vhost}}/{{name}}", shovels.show, Tag.MONITORING, checks_vhost=True),
        Route("GET", one, shovels.show, Tag.MONITORING, checks_vhost=True),
        # Who may delete its parameter.
        Route("DELETE", one, shovels.delete, Tag.POLICYMAKER, checks_vhost=True),
        Route("DELETE", f"{one}/restart", shovels.restart, Tag.POLICYMAKER, checks_vhost=True),
    ]
