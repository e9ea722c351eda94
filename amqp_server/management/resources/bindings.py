"""Bindings: `/api/bindings`, and those of a queue or an exchange."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote_plus

from amqp_server.management.http.answers import (
    NO_CONTENT,
    NOTHING,
    Answer,
    AnyAnswer,
    bad_request,
    not_found,
    ok,
)
from amqp_server.management.http.columns import select_columns
from amqp_server.management.http.list_query import parse_list_query
from amqp_server.management.http.lists import PLAIN, Shape, list_answer, value_of_object
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

DEFAULT_EXCHANGE: Final = "amq.default"
"""Name of the exchange without a name, in paths."""
_SHAPE: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show,
    name=PLAIN.name,
    value=value_of_object,
    order=("vhost", "source", "destination", "destination_type", "properties_key"),
)
_KINDS: Final = {"q": "queue", "e": "exchange"}


class _Bindings:
    """Bindings in one form of the path.

    Args:
        parts: What handlers use.
        kind: `queue` or `exchange`: what paths with a destination lead to.
    """

    def __init__(self, parts: Parts, kind: str = "queue") -> None:
        self._broker = parts.broker
        self._kind = kind

    async def show_all(self, call: Call) -> AnyAnswer:
        return await self._answer(call, {})

    async def list_of_queue(self, call: Call) -> AnyAnswer:
        ends = {"destination": call.segments["name"], "destination_type": "queue"}
        return await self._answer(call, ends)

    async def list_from(self, call: Call) -> AnyAnswer:
        return await self._answer(call, {"source": _exchange(call.segments["name"])})

    async def list_to(self, call: Call) -> AnyAnswer:
        name = _exchange(call.segments["name"])
        return await self._answer(call, {"destination": name, "destination_type": "exchange"})

    async def list_between(self, call: Call) -> AnyAnswer:
        return await self._answer(call, self._ends(call))

    async def add(self, call: Call) -> AnyAnswer:
        body = await call.body()
        arguments = {
            **self._place(call),
            "routing_key": _routing_key(body),
            "arguments": table(body, "arguments"),
        }
        made = await self._broker.call("bindings.add", arguments, call.actor)
        destination = quote(call.segments["destination"], safe="")
        location = f"{destination}/{quote(made['properties_key'], safe='')}"
        return Answer(HTTPStatus.CREATED, NOTHING, {"location": location})

    async def show(self, call: Call) -> AnyAnswer:
        for row in await self._rows(call, self._ends(call)):
            if _is_key_of(call.segments["properties_key"], row):
                return ok(select_columns(row, parse_list_query(call.query).columns))
        raise not_found()

    async def delete(self, call: Call) -> AnyAnswer:
        arguments = {**self._place(call), "properties_key": call.segments["properties_key"]}
        await self._broker.call("bindings.delete", arguments, call.actor)
        return NO_CONTENT

    def _place(self, call: Call) -> dict[str, str]:
        return {"vhost": call.segments["vhost"], **self._ends(call)}

    def _ends(self, call: Call) -> dict[str, str]:
        return {
            "source": _exchange(call.segments["source"]),
            "destination": call.segments["destination"],
            "destination_type": self._kind,
        }

    async def _answer(self, call: Call, wanted: Mapping[str, str]) -> AnyAnswer:
        rows = await self._rows(call, wanted)
        return await list_answer(call.query, rows, _SHAPE, is_paged=False)

    async def _rows(self, call: Call, wanted: Mapping[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        def take(report: dict[str, Any]) -> None:
            found.extend(row for row in report["bindings"] if call.user.sees_vhost(row["vhost"]))

        arguments = {"vhost": call.segments.get("vhost", ""), **wanted}
        await self._broker.call("bindings.list", arguments, on_progress=take)
        return found


def _exchange(name: str) -> str:
    return "" if name == DEFAULT_EXCHANGE else name


def _is_key_of(key: str, row: Mapping[str, Any]) -> bool:
    """Return whether a key names a binding, as `amqp_server.control.properties_key` says it."""
    if row["properties_key"] == key:
        return True
    return not row["arguments"] and "~" not in key and unquote_plus(key) == row["routing_key"]


def _routing_key(body: Mapping[str, Any]) -> str:
    key = body.get("routing_key", "")
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if not isinstance(key, str):
        raise bad_request(["not_a_string", key])
    return key


def routes(parts: Parts) -> list[Route]:
    """Return the routes of bindings."""
    bindings = _Bindings(parts)
    exchange = "/api/exchanges/{vhost}/{name}/bindings"
    found = [
        Route("GET", "/api/bindings", bindings.show_all),
        Route("GET", "/api/bindings/{vhost}", bindings.show_all),
        Route("GET", "/api/queues/{vhost}/{name}/bindings", bindings.list_of_queue),
        Route("GET", f"{exchange}/source", bindings.list_from),
        Route("GET", f"{exchange}/destination", bindings.list_to),
    ]
    for letter, kind in _KINDS.items():
        between = _Bindings(parts, kind)
        path = f"/api/bindings/{{vhost}}/e/{{source}}/{letter}/{{destination}}"
        one = f"{path}/{{properties_key}}"
        found += [
            Route("GET", path, between.list_between),
            Route("POST", path, between.add),
            Route("GET", one, between.show),
            Route("DELETE", one, between.delete),
        ]
    return found
