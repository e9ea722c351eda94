"""Virtual hosts, to create, describe and delete: `/api/vhosts`."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import (
    CREATED,
    NO_CONTENT,
    AnyAnswer,
    ApiError,
    bad_request,
)
from amqp_server.management.http.call import Tag
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import boolean

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_QUEUE_TYPES: Final = ("classic", "quorum", "stream", "undefined")


class _VhostChanges:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker

    async def put(self, call: Call) -> AnyAnswer:
        body = await call.body()
        arguments = _arguments(body)
        is_traced = boolean(body, "tracing")
        name = call.segments["vhost"]
        made = await self._broker.call("vhosts.set", {**arguments, "name": name}, call.actor)
        if body.get("tracing") is not None:
            await self._broker.call("vhosts.trace", {"name": name, "is_on": is_traced}, call.actor)
        return CREATED if made["created"] else NO_CONTENT

    async def delete(self, call: Call) -> AnyAnswer:
        name = call.segments["vhost"]
        try:
            await self._broker.call("vhosts.delete", {"name": name}, call.actor)
        except BrokerRefused as refused:
            if refused.kind == "in_use":
                reason = (
                    f"Refusing to delete virtual host '{name}' because it is protected from "
                    "deletion"
                )
                raise ApiError(
                    HTTPStatus.PRECONDITION_FAILED, "precondition_failed", reason
                ) from refused
            raise
        return NO_CONTENT

    async def protect(self, call: Call) -> AnyAnswer:
        return await self._set_protection(call, is_protected=True)

    async def end_protection(self, call: Call) -> AnyAnswer:
        return await self._set_protection(call, is_protected=False)

    async def _set_protection(self, call: Call, *, is_protected: bool) -> AnyAnswer:
        arguments = {"name": call.segments["vhost"], "protected": is_protected}
        await self._broker.call("vhosts.set", arguments, call.actor)
        return NO_CONTENT


def _arguments(body: dict[str, Any]) -> dict[str, Any]:
    """Return what a body says of a virtual host.

    Raises:
        ApiError: A value is of another type.
    """
    found: dict[str, Any] = {}
    if "description" in body:
        if not isinstance(body["description"], str):
            raise bad_request(["not_a_string", body["description"]])
        found["description"] = body["description"]
    if "tags" in body:
        tags = body["tags"]
        if isinstance(tags, str):
            tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise bad_request("tags must be a text or a list of texts")
        found["tags"] = tags
    kind = body.get("default_queue_type", body.get("defaultqueuetype"))
    if kind is not None:
        if kind not in _QUEUE_TYPES:
            raise bad_request(f"Unsupported default queue type: '{kind}'")
        found["default_queue_type"] = kind
    return found


def routes(parts: Parts) -> list[Route]:
    """Return the routes that change virtual hosts."""
    changes = _VhostChanges(parts)
    admin = Tag.ADMINISTRATOR
    one = "/api/vhosts/{vhost}"
    protection = f"{one}/deletion/protection"
    return [
        Route("PUT", one, changes.put, admin),
        Route("DELETE", one, changes.delete, admin),
        Route("POST", protection, changes.protect, admin, checks_vhost=True),
        Route("DELETE", protection, changes.end_protection, admin, checks_vhost=True),
    ]
