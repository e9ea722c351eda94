"""Parameters of the whole server: `/api/global-parameters` and `/api/cluster-name`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.answers import CREATED, NO_CONTENT, AnyAnswer, not_found, ok
from amqp_server.management.http.call import Tag
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import PLAIN, Shape, list_answer, value_of_object
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import require, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_CLUSTER_NAME: Final = "cluster_name"
_SHAPE: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show, name=PLAIN.name, value=value_of_object, order=("name",)
)


class _GlobalParameters:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker
        self._node = parts.settings.node_name

    async def show_all(self, call: Call) -> AnyAnswer:
        rows = await self._rows()
        return await list_answer(call.query, rows, _SHAPE, is_paged=False)

    async def show(self, call: Call) -> AnyAnswer:
        row = await self._find(call.segments["name"])
        if row is None:
            raise not_found()
        return ok(select_columns(row, parse_list_query(call.query).columns))

    async def put(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, "value")
        is_new = await self._set(call, call.segments["name"], body["value"])
        return CREATED if is_new else NO_CONTENT

    async def delete(self, call: Call) -> AnyAnswer:
        arguments = {"name": call.segments["name"]}
        if not await self._broker.call("global_parameters.clear", arguments, call.actor):
            raise not_found()
        return NO_CONTENT

    async def show_cluster_name(self, call: Call) -> AnyAnswer:
        row = await self._find(_CLUSTER_NAME)
        assert row is not None, "it has a default value"
        return ok({"name": row["value"]})

    async def put_cluster_name(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, "name")
        await self._set(call, _CLUSTER_NAME, text(body, "name", ""))
        return NO_CONTENT

    async def _set(self, call: Call, name: str, value: object) -> bool:
        arguments = {"name": name, "value": {"value": value}}
        return bool(await self._broker.call("global_parameters.set", arguments, call.actor))

    async def _find(self, name: str) -> dict[str, Any] | None:
        return next((row for row in await self._rows() if row["name"] == name), None)

    async def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await self._broker.call("global_parameters.list")
        if all(row["name"] != _CLUSTER_NAME for row in rows):
            # RabbitMQ has it from the start: the name of its first node.
            rows.append({"name": _CLUSTER_NAME, "value": self._node})
        return rows


def routes(parts: Parts) -> list[Route]:
    """Return the routes of global parameters."""
    parameters = _GlobalParameters(parts)
    maker = Tag.POLICYMAKER
    one = "/api/global-parameters/{name}"
    return [
        Route("GET", "/api/global-parameters", parameters.show_all, maker),
        Route("GET", one, parameters.show, maker),
        Route("PUT", one, parameters.put, maker),
        Route("DELETE", one, parameters.delete, maker),
        Route("GET", "/api/cluster-name", parameters.show_cluster_name),
        Route("PUT", "/api/cluster-name", parameters.put_cluster_name, Tag.ADMINISTRATOR),
    ]
