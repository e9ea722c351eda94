"""Permissions of users: `/api/permissions` and `/api/topic-permissions`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

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
from amqp_server.management.http.lists import PLAIN, Shape, list_answer, value_of_object
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import require, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_SHAPE: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show,
    name=lambda row: str(row["user"]),
    value=value_of_object,
    order=("vhost", "user", "exchange"),
)
_RIGHTS: Final = ("configure", "write", "read")
_TOPIC: Final = ("exchange", "write", "read")


class _Permissions:
    """Rows of one family: `permissions`, or `topic_permissions`.

    Args:
        parts: What handlers use.
        family: Name of the commands.
        keys: Keys that a body must have.
    """

    def __init__(self, parts: Parts, family: str, keys: tuple[str, ...]) -> None:
        self._broker = parts.broker
        self._family = family
        self._keys = keys

    async def show_all(self, call: Call) -> AnyAnswer:
        wanted = {name: call.segments[name] for name in ("vhost",) if name in call.segments}
        rows = await self._broker.call(f"{self._family}.list", wanted)
        return await list_answer(call.query, rows, _SHAPE, is_paged=False)

    async def show(self, call: Call) -> AnyAnswer:
        rows = await self._found(call)
        return ok(select_columns(rows[0], parse_list_query(call.query).columns))

    async def show_found(self, call: Call) -> AnyAnswer:
        rows = await self._found(call)
        return await list_answer(call.query, rows, _SHAPE, is_paged=False)

    async def put(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, *self._keys)
        values = {key: text(body, key, "") for key in self._keys}
        with _refusals():
            known = await self._rows(call)
            arguments = {**_place(call), **values}
            await self._broker.call(f"{self._family}.set", arguments, call.actor)
        exchange = values.get("exchange")
        is_known = any(row.get("exchange") == exchange for row in known)
        return NO_CONTENT if is_known else CREATED

    async def delete(self, call: Call) -> AnyAnswer:
        arguments = _place(call)
        if "exchange" in call.segments:
            arguments["exchange"] = call.segments["exchange"]
        if not await self._broker.call(f"{self._family}.clear", arguments, call.actor):
            raise not_found()
        return NO_CONTENT

    async def _found(self, call: Call) -> list[dict[str, Any]]:
        rows = await self._rows(call)
        if not rows:
            raise not_found()
        return rows

    async def _rows(self, call: Call) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]]
        rows = await self._broker.call(f"{self._family}.list", _place(call))
        return rows


def _place(call: Call) -> dict[str, str]:
    return {"vhost": call.segments["vhost"], "user": call.segments["user"]}


@contextmanager
def _refusals() -> Iterator[None]:
    """Say what is wrong in RabbitMQ's words.

    Raises:
        ApiError: There is no such user or virtual host, or a pattern is not valid.
    """
    try:
        yield
    except BrokerRefused as refused:
        if refused.kind == "not_found":
            raise bad_request("vhost_or_user_not_found") from refused
        if refused.kind == "invalid_argument":
            raise bad_request(["invalid_regexp", refused.reason]) from refused
        raise


def routes(parts: Parts) -> list[Route]:
    """Return the routes of permissions."""
    of_names = _Permissions(parts, "permissions", _RIGHTS)
    of_topics = _Permissions(parts, "topic_permissions", _TOPIC)
    admin = Tag.ADMINISTRATOR
    one, topic = "/api/permissions/{vhost}/{user}", "/api/topic-permissions/{vhost}/{user}"
    return [
        Route("GET", "/api/permissions", of_names.show_all, admin),
        Route("GET", one, of_names.show, admin),
        Route("PUT", one, of_names.put, admin),
        Route("DELETE", one, of_names.delete, admin),
        Route(
            "GET", "/api/vhosts/{vhost}/permissions", of_names.show_all, admin, checks_vhost=True
        ),
        Route("GET", "/api/topic-permissions", of_topics.show_all, admin),
        Route("GET", topic, of_topics.show_found, admin),
        Route("PUT", topic, of_topics.put, admin),
        Route("DELETE", topic, of_topics.delete, admin),
        Route("DELETE", f"{topic}/{{exchange}}", of_topics.delete, admin),
        Route(
            "GET",
            "/api/vhosts/{vhost}/topic-permissions",
            of_topics.show_all,
            admin,
            checks_vhost=True,
        ),
    ]
