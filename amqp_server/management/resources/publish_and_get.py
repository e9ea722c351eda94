"""Publishes a message to an exchange, and takes messages from a queue, as a client would."""

from __future__ import annotations

import base64
import binascii
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import (
    AnyAnswer,
    ApiError,
    bad_request,
    not_authorised,
    ok,
)
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import integer, require
from amqp_server.management.resources.bindings import DEFAULT_EXCHANGE

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

ACK_MODES: Final = (
    "ack_requeue_true",
    "ack_requeue_false",
    "reject_requeue_true",
    "reject_requeue_false",
)
PART_CHARACTERS: Final = 512 * 1024
"""Characters of base64 in one request, a multiple of 4; a longer body is sent in parts."""
_NOT_ALLOWED: Final = 530
"""The user has no permission in the virtual host, as an administrator may not have."""
_REJECTED: Final = "rejected Unable to publish message. Check queue limits."


class _Messages:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker

    async def publish(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, "routing_key", "properties", "payload", "payload_encoding")
        properties = body["properties"]
        if properties in ([], ""):
            properties = {}
        if not isinstance(properties, dict):
            raise bad_request(["not_a_table", properties])
        _refuse_null(properties.get("headers"))
        exchange = call.segments["name"]
        arguments = {
            "vhost": call.segments["vhost"],
            "exchange": "" if exchange == DEFAULT_EXCHANGE else exchange,
            "routing_key": _text(body["routing_key"]),
            "properties": properties,
            "body": _payload(body["payload"], body["payload_encoding"]),
        }
        try:
            await self._upload(call, arguments)
            done = await self._broker.call("messages.publish", arguments, call.actor)
        except BrokerRefused as refused:
            raise _publish_error(refused) from refused
        if not done["confirmed"]:
            raise bad_request(_REJECTED)
        return ok({"routed": done["routed"]})

    async def _upload(self, call: Call, arguments: dict[str, Any]) -> None:
        """Send all of a long body but its last part, which stays in the arguments."""
        body = arguments["body"]
        last = (len(body) - 1) // PART_CHARACTERS * PART_CHARACTERS
        for at in range(0, last, PART_CHARACTERS):
            part = {"upload": arguments.get("upload", ""), "body": body[at : at + PART_CHARACTERS]}
            arguments["upload"] = await self._broker.call("messages.upload", part, call.actor)
        arguments["body"] = body[max(last, 0) :]

    async def get(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, "ackmode", "count", "encoding")
        count = integer(body, "count", 1)
        truncate = integer(body, "truncate", -1) if "truncate" in body else -1
        encoding, ack_mode = body["encoding"], body["ackmode"]
        if encoding not in ("auto", "base64"):
            raise bad_request("Unsupported encoding. Please use auto or base64.")
        if ack_mode not in ACK_MODES:
            raise bad_request(f"Unsupported ackmode. Please use one of {', '.join(ACK_MODES)}.")
        found: list[dict[str, Any]] = []
        bodies: list[list[bytes]] = []

        def take(report: dict[str, Any]) -> None:
            if "body" in report:
                bodies[-1].append(base64.b64decode(report["body"]))
                return
            for row in report["messages"]:
                bodies.append([base64.b64decode(row.pop("body"))])
                found.append(row)

        arguments = {
            "vhost": call.segments["vhost"],
            "queue": call.segments["name"],
            "count": max(count, -1),
            "ack_mode": ack_mode,
            "body_bytes": max(truncate, -1),
        }
        try:
            await self._broker.call("messages.get", arguments, call.actor, take)
        except BrokerRefused as refused:
            raise _get_error(refused) from refused
        for row, parts in zip(found, bodies, strict=True):
            row |= _shown(b"".join(parts), encoding)
            # RabbitMQ's, whose tools show a column then.
            row["properties"] = row["properties"] or []
        return ok(found)


def _shown(octets: bytes, encoding: str) -> dict[str, str]:
    if encoding == "auto":
        try:
            return {"payload": octets.decode(), "payload_encoding": "string"}
        except UnicodeDecodeError:
            pass
    return {"payload": base64.b64encode(octets).decode("ascii"), "payload_encoding": "base64"}


def _payload(payload: object, encoding: object) -> str:
    """Return a payload in base64.

    Raises:
        ApiError: It is no text, or not in its encoding.
    """
    if encoding not in ("string", "base64"):
        raise bad_request(["unsupported_encoding", encoding])
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return base64.b64encode(payload.encode()).decode("ascii")
    try:
        base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", payload]) from None
    return payload


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise bad_request(["not_a_string", value])
    return value


def _refuse_null(value: object) -> None:
    """Refuse headers with a value null, as RabbitMQ does."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        if None in value:
            raise bad_request("null_not_allowed")
        for each in value:
            _refuse_null(each)


def _publish_error(refused: BrokerRefused) -> Exception:
    """Return what a client gets whose message is refused."""
    code, fault = refused.details.get("code"), refused.details.get("fault")
    if fault is not None:
        return bad_request([fault, refused.details["property"]])
    if refused.kind != "refused" or code == _NOT_ALLOWED:
        return refused
    if code == HTTPStatus.NOT_FOUND:
        return ApiError(HTTPStatus.NOT_FOUND, "not_found", f"{code} {refused.reason}")
    return bad_request(f"{code} {refused.reason}")


def _get_error(refused: BrokerRefused) -> Exception:
    """Return what a client gets who may take no messages."""
    code = refused.details.get("code")
    if refused.kind != "refused" or code == _NOT_ALLOWED:
        return refused
    if code == HTTPStatus.FORBIDDEN:
        return not_authorised(refused.reason)
    if code == HTTPStatus.NOT_FOUND:
        return ApiError(HTTPStatus.NOT_FOUND, "not_found", refused.reason)
    return bad_request(f"{code} {refused.reason}")


def routes(parts: Parts) -> list[Route]:
    """Return the routes of messages."""
    messages = _Messages(parts)
    return [
        Route("POST", "/api/exchanges/{vhost}/{name}/publish", messages.publish),
        Route("POST", "/api/queues/{vhost}/{name}/get", messages.get),
    ]
