"""Limits of virtual hosts and users: `/api/vhost-limits` and `/api/user-limits`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.base.erlang_text import erlang_text
from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import (
    NO_CONTENT,
    AnyAnswer,
    ApiError,
    bad_request,
    not_found,
    vhost_not_found,
)
from amqp_server.management.http.call import Tag
from amqp_server.management.http.lists import PLAIN, Shape, list_answer, value_of_object
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_KNOWN: Final = {
    "vhost": ("max-connections", "max-queues"),
    "user": ("max-connections", "max-channels"),
}
"""Limits that there are, by what they are for."""
_OF_VHOSTS: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show, name=PLAIN.name, value=value_of_object, order=("vhost",)
)
_OF_USERS: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show, name=PLAIN.name, value=value_of_object, order=("user",)
)


class _Limits:
    """Limits of virtual hosts, or of users.

    Args:
        parts: What handlers use.
        kind: `vhost` or `user`.
    """

    def __init__(self, parts: Parts, kind: str) -> None:
        self._broker = parts.broker
        self._kind = kind
        self._shape = _OF_VHOSTS if kind == "vhost" else _OF_USERS

    async def show_all(self, call: Call) -> AnyAnswer:
        only = call.segments.get(self._kind)
        if only is not None and not await self._exists(only):
            raise not_found()
        found = await self._broker.call("limits.list")
        rows = [
            {self._kind: row["name"], "value": row["limits"]}
            for row in found[f"{self._kind}s"]
            if only in (None, row["name"]) and self._is_seen(call, row["name"])
        ]
        return await list_answer(call.query, rows, self._shape, is_paged=False)

    async def put(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, "value")
        limit, value = call.segments["limit"], body["value"]
        if limit not in _KNOWN[self._kind]:
            pairs = erlang_text({limit: value})
            place = "limits" if self._kind == "vhost" else "user-limits"
            raise self._invalid(f"Unrecognised terms {pairs} in {place}")
        if type(value) is not int:
            raise self._invalid(f"{limit} should be a number, actually was {erlang_text(value)}")
        name = call.segments[self._kind]
        arguments = {"kind": self._kind, "name": name, "limits": {limit: value}, "replace": False}
        try:
            await self._broker.call("limits.set", arguments, call.actor)
        except BrokerRefused as refused:
            if refused.kind == "invalid_argument":
                raise self._invalid(refused.reason) from refused
            if refused.kind == "not_found":
                if self._kind == "vhost":
                    raise vhost_not_found() from refused
                raise bad_request(["no_such_user", name]) from refused
            raise
        return NO_CONTENT

    async def delete(self, call: Call) -> AnyAnswer:
        name, limit = call.segments[self._kind], call.segments["limit"]
        if limit in _KNOWN[self._kind]:
            arguments = {"kind": self._kind, "name": name, "limits": [limit]}
            await self._broker.call("limits.clear", arguments, call.actor)
        return NO_CONTENT

    async def _exists(self, name: str) -> bool:
        if self._kind == "vhost":
            # The virtual host of a path is checked before.
            return True
        return bool(await self._broker.call("users.list", {"name": name}))

    def _is_seen(self, call: Call, name: str) -> bool:
        return self._kind == "user" or call.user.is_monitor or call.user.sees_vhost(name)

    def _invalid(self, fault: str) -> ApiError:
        return bad_request(f"Validation failed\n\n{fault}\n" if self._kind == "vhost" else fault)


def routes(parts: Parts) -> list[Route]:
    """Return the routes of limits."""
    found = []
    for kind, sees in (("vhost", Tag.MANAGEMENT), ("user", Tag.ADMINISTRATOR)):
        limits = _Limits(parts, kind)
        path = f"/api/{kind}-limits"
        one = f"{path}/{{{kind}}}"
        found += [
            Route("GET", path, limits.show_all, sees),
            Route("GET", one, limits.show_all, sees),
            Route("PUT", f"{one}/{{limit}}", limits.put, Tag.ADMINISTRATOR),
            Route("DELETE", f"{one}/{{limit}}", limits.delete, Tag.ADMINISTRATOR),
        ]
    return found
