"""Bodies of requests: read within bounds, and parsed as RabbitMQ does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.management.http.answers import ApiError, bad_request

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest

BODY_BYTES_MAX: Final = 20_000_000
"""Longest body; a longer one is refused as RabbitMQ does."""
BODY_SECONDS_MAX: Final = 60.0
"""Seconds within which a body must have arrived."""
_TOO_LONG: Final = "Exceeded HTTP request body size limit"
_EMPTY: Final = (b"", b"null", b"undefined")


async def read_octets(request: BaseRequest) -> bytes:
    """Return the whole body of a request.

    Raises:
        ApiError: It is longer than `BODY_BYTES_MAX`, or took longer than `BODY_SECONDS_MAX`.
    """
    length = request.content_length
    if length is not None and length > BODY_BYTES_MAX:
        raise _refused(_TOO_LONG)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for part in request.content.iter_any():
                size += len(part)
                if size > BODY_BYTES_MAX:
                    raise _refused(_TOO_LONG)
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, headers={"connection": "close"}) from None
    return b"".join(parts)


def parse_object(octets: bytes) -> dict[str, Any]:
    """Return a body as a JSON object.

    Raises:
        ApiError: It is no JSON object.
    """
    text = octets.strip()
    if text in _EMPTY:
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise bad_request("not_json") from None
    if not isinstance(value, dict):
        raise bad_request("not_json")
    return value


def _refused(reason: str) -> ApiError:
    # What the client still sends is not read: the connection ends.
    return ApiError(400, "bad_request", reason, {"connection": "close"})
