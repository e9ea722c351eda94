"""Bodies of requests: read within bounds, and parsed as RabbitMQ does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.management.http.answers import ApiError, bad_request

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest

BODY_BYTES_MAX: Final = 20_000_000
"""Longest body; a longer one is refused as RabbitMQ does."""
BODY_SECONDS_MAX: Final = 60.0
"""Seconds within which a body must have arrived."""
BODIES_BYTES_MAX: Final = 100_000_000
"""Bytes of the bodies of all requests together."""
STRANGERS_BODY_BYTES_MAX: Final = 24 * 1024
"""Longest body of a request without a login."""
_CLOSE: Final = {"connection": "close"}
_TOO_LONG: Final = "Exceeded HTTP request body size limit"
_EMPTY: Final = (b"", b"null", b"undefined")


class BodyBudget:
    """Bytes of bodies that all requests of a server hold together.

    Args:
        bytes_max: Most bytes.

    Attributes:
        held_bytes: Bytes that are held now.
    """

    def __init__(self, bytes_max: int = BODIES_BYTES_MAX) -> None:
        self.held_bytes = 0
        self._bytes_max = bytes_max

    def take(self, size: int) -> None:
        """Hold some bytes more.

        Raises:
            ApiError: 503: that would be too many.
        """
        if self.held_bytes + size > self._bytes_max:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "unavailable",
                "Too many long bodies at the same time: try again",
                _CLOSE,
            )
        self.held_bytes += size

    def release(self, size: int) -> None:
        """Hold some bytes less."""
        self.held_bytes -= size


async def read_octets(request: BaseRequest, bytes_max: int, take: Callable[[int], None]) -> bytes:
    """Return the whole body of a request.

    Args:
        request: Request, whose body was not read yet.
        bytes_max: Longest body.
        take: Called with the size of each part before it is kept; may raise.

    Raises:
        ApiError: It is longer than `bytes_max`, or took longer than `BODY_SECONDS_MAX`.
    """
    length = request.content_length
    if length is not None and length > bytes_max:
        raise _refused(_TOO_LONG)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for part in request.content.iter_any():
                size += len(part)
                if size > bytes_max:
                    raise _refused(_TOO_LONG)
                take(len(part))
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, headers=_CLOSE) from None
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
    return ApiError(400, "bad_request", reason, _CLOSE)
