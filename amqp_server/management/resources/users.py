"""Users, `/api/users`, and the one who asks, `/api/whoami`."""

from __future__ import annotations

import base64
import binascii
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
from amqp_server.management.http.values import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_SHAPE: Final[Shape[Mapping[str, Any]]] = Shape(
    show=PLAIN.show, name=PLAIN.name, value=value_of_object, order=("name",)
)
_SHA256: Final = "rabbit_password_hashing_sha256"


class _Users:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker

    async def show_all(self, call: Call) -> AnyAnswer:
        rows = await self._rows()
        return await list_answer(call.query, [_shown(row) for row in rows], _SHAPE)

    async def without_permissions(self, call: Call) -> AnyAnswer:
        rows = [_shown(row) for row in await self._rows() if not row["vhosts"]]
        return await list_answer(call.query, rows, _SHAPE, is_paged=False)

    async def show(self, call: Call) -> AnyAnswer:
        rows = await self._rows(name=call.segments["user"])
        if not rows:
            raise not_found()
        return ok(select_columns(_shown(rows[0]), parse_list_query(call.query).columns))

    async def put(self, call: Call) -> AnyAnswer:
        arguments = _arguments(await call.body())
        arguments["name"] = call.segments["user"]
        made = await self._broker.call("users.set", arguments, call.actor)
        return CREATED if made["created"] else NO_CONTENT

    async def delete(self, call: Call) -> AnyAnswer:
        await self._broker.call("users.delete", {"name": call.segments["user"]}, call.actor)
        return NO_CONTENT

    async def bulk_delete(self, call: Call) -> AnyAnswer:
        """Delete users one after the other; the first one that is missing ends it."""
        body = await call.body()
        require(body, "users")
        names = body["users"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise bad_request("users must be a list of names")
        for name in names:
            try:
                await self._broker.call("users.delete", {"name": name}, call.actor)
            except BrokerRefused as refused:
                if refused.kind == "not_found":
                    raise bad_request(["no_such_user", name]) from refused
                raise
        return NO_CONTENT

    async def permissions(self, call: Call) -> AnyAnswer:
        return await self._rows_of(call, "permissions.list")

    async def topic_permissions(self, call: Call) -> AnyAnswer:
        return await self._rows_of(call, "topic_permissions.list")

    async def _rows_of(self, call: Call, command: str) -> AnyAnswer:
        name = call.segments["user"]
        if not await self._rows(name=name):
            raise not_found()
        rows = await self._broker.call(command, {"user": name})
        return await list_answer(call.query, rows, PLAIN, is_paged=False)

    async def _rows(self, **wanted: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]]
        rows = await self._broker.call("users.list", {**wanted, "with_hashes": True})
        return rows


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "password_hash": row["password_hash"],
        "hashing_algorithm": row["hashing_algorithm"] or _SHA256,
        "tags": row["tags"],
        "limits": row["limits"],
    }


def _arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a body says of a user; without password and hash no password logs in.

    Raises:
        ApiError: A value is missing, or of another type.
    """
    if "tags" not in body:
        raise bad_request("tags_not_present")
    if "password" in body and "password_hash" in body:
        raise bad_request("both_password_and_password_hash_are_provided")
    arguments: dict[str, Any] = {"tags": _tags(body["tags"])}
    if "password" in body:
        if not isinstance(body["password"], str):
            raise bad_request(["not_a_string", body["password"]])
        arguments["password"] = body["password"]
    elif "password_hash" in body:
        text = body["password_hash"]
        algorithm = body.get("hashing_algorithm", _SHA256)
        if not isinstance(text, str) or not _is_hash(text, algorithm):
            raise bad_request(["not_base64", text])
        if not isinstance(algorithm, str):
            raise bad_request(["not_a_string", algorithm])
        arguments |= {"password_hash": text, "hashing_algorithm": algorithm}
    return arguments


def _is_hash(text: str, algorithm: object) -> bool:
    """Return whether a text has the form of a hash; the broker checks it more closely."""
    if not isinstance(algorithm, str) or not algorithm.startswith("rabbit_"):
        return True
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _tags(value: object) -> list[str]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise bad_request("tags must be a text or a list of texts")
    return [tag.strip() for tag in value if tag.strip()]


async def show_requesting_user(call: Call) -> AnyAnswer:
    """Return the name and the tags of the user who asks."""
    return ok({"name": call.user.name, "tags": list(call.user.tags)})


def routes(parts: Parts) -> list[Route]:
    """Return the routes of users."""
    users = _Users(parts)
    admin = Tag.ADMINISTRATOR
    one = "/api/users/{user}"
    return [
        Route("GET", "/api/users", users.show_all, admin),
        Route("GET", "/api/users/without-permissions", users.without_permissions, admin),
        Route("POST", "/api/users/bulk-delete", users.bulk_delete, admin),
        Route("GET", one, users.show, admin),
        Route("PUT", one, users.put, admin),
        Route("DELETE", one, users.delete, admin),
        Route("GET", f"{one}/permissions", users.permissions, admin),
        Route("GET", f"{one}/topic-permissions", users.topic_permissions, admin),
        Route("GET", "/api/whoami", show_requesting_user),
    ]
