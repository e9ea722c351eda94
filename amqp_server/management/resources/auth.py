"""How users log in: `/api/auth`, the hash of a password, and counts of attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.answers import NO_CONTENT, AnyAnswer, not_found, ok
from amqp_server.management.http.call import Tag
from amqp_server.management.http.lists import PLAIN, Shape, list_answer, value_of_object
from amqp_server.management.http.routes import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_SHA256: Final = "rabbit_password_hashing_sha256"
_PROTOCOLS: Final = {"amqp091": "auth_attempts", "http": "auth_attempts_http"}
"""Fields of the overview by protocol."""
_COUNTS: Final = ("auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded")
_SHAPE: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show, name=PLAIN.name, value=value_of_object, order=("protocol",)
)


async def _show(call: Call) -> AnyAnswer:
    """Tell the page and tools that users log in with a password."""
    return ok({"oauth_enabled": False})


class _Auth:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def hash_password(self, call: Call) -> AnyAnswer:
        """Return a hash that `password_hash` of a user takes without naming an algorithm."""
        arguments = {"password": call.segments["password"], "algorithm": _SHA256}
        made = await self._parts.broker.call("passwords.hash", arguments)
        return ok({"ok": made["password_hash"]})

    async def attempts(self, call: Call) -> AnyAnswer:
        self._demand_node(call)
        await self._parts.mirror.refresh()
        overview = self._parts.mirror.overview.fields
        rows = [
            {"protocol": protocol, **dict.fromkeys(_COUNTS, 0), **overview.get(field, {})}
            for protocol, field in _PROTOCOLS.items()
        ]
        return await list_answer(call.query, rows, _SHAPE, is_paged=False)

    async def attempts_by_source(self, call: Call) -> AnyAnswer:
        """Return an empty list: attempts are not counted by source, as RabbitMQ's default is."""
        self._demand_node(call)
        return ok([])

    async def forget(self, call: Call) -> AnyAnswer:
        """Do nothing: the counters are those of the metrics, which only grow."""
        self._demand_node(call)
        return NO_CONTENT

    def _demand_node(self, call: Call) -> None:
        if call.segments["node"] != self._parts.settings.node_name:
            raise not_found()


def routes(parts: Parts) -> list[Route]:
    """Return the routes of logins."""
    auth = _Auth(parts)
    attempts = "/api/auth/attempts/{node}"
    return [
        Route("GET", "/api/auth", _show, None),
        Route("GET", "/api/auth/hash_password/{password}", auth.hash_password, Tag.ADMINISTRATOR),
        Route("GET", attempts, auth.attempts, Tag.MONITORING),
        Route("DELETE", attempts, auth.forget, Tag.ADMINISTRATOR),
        Route("GET", f"{attempts}/source", auth.attempts_by_source, Tag.MONITORING),
        Route("DELETE", f"{attempts}/source", auth.forget, Tag.ADMINISTRATOR),
    ]
