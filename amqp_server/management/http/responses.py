"""Makes the response of an answer: headers, octets, compression, and the end of slow readers."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import TYPE_CHECKING, Final

import orjson
from aiohttp.web import Response, StreamResponse

from amqp_server.management.http.answers import JSON, NOTHING, Answer, AnyAnswer, Octets, Stream

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest

COMPRESSED_BYTES_MIN: Final = 1000
"""Shorter bodies are sent as they are."""
WORKER_BYTES_MIN: Final = 16 * 1024
"""Longer bodies are compressed in a worker: the event loop serves others meanwhile."""
WRITE_SECONDS_MAX: Final = 120.0
"""Seconds within which a client must have taken an answer, or a part of a stream."""
LOOK_SECONDS: Final = 5.0
"""Seconds after which a stream without a new part looks whether its client is still there."""
_LEVEL: Final = 1
_ALWAYS: Final = {
    "vary": "accept, accept-encoding, origin",
    "server": "amqp-server",
    # Names and bodies of messages are anyone's: no browser is to take them for a page.
    "x-content-type-options": "nosniff",
}


async def send(
    request: BaseRequest, answer: AnyAnswer, extra_headers: Mapping[str, str]
) -> StreamResponse:
    """Send an answer, and return the response when the client has taken it.

    Args:
        request: Request that is answered.
        answer: What to send.
        extra_headers: Headers beside those of the answer.

    Raises:
        ConnectionError: The client has gone, or did not read.
    """
    if isinstance(answer, Stream):
        return await _send_stream(request, answer, extra_headers)
    octets = encode(answer) if isinstance(answer, Answer) else answer
    headers = {**_ALWAYS, **extra_headers, **octets.headers}
    body = octets.body
    if octets.content_type:
        headers["content-type"] = octets.content_type
        headers.setdefault("cache-control", "no-cache")
    if not octets.is_packed and len(body) >= COMPRESSED_BYTES_MIN and takes_gzip(request):
        body = octets.gzipped or await compress(body)
        headers["content-encoding"] = "gzip"
    response = Response(status=octets.status, body=body, headers=headers)
    if not octets.content_type:
        # The library's own default would name one for a body that is not there.
        response.headers.popall("content-type", None)
    if headers.get("connection") == "close":
        response.force_close()
    await _within(request, _send_response(request, response))
    return response


def encode(answer: Answer) -> Octets:
    """Return an answer with its value written as JSON."""
    if answer.value is NOTHING:
        return Octets(answer.status, "", b"", answer.headers)
    body = orjson.dumps(answer.value, option=orjson.OPT_NON_STR_KEYS)
    return Octets(answer.status, JSON, body, answer.headers)


async def compress(body: bytes) -> bytes:
    """Return a body in the format of gzip."""
    if len(body) < WORKER_BYTES_MIN:
        return _gzip(body)
    return await asyncio.to_thread(_gzip, body)


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def takes_gzip(request: BaseRequest) -> bool:
    """Return whether a client takes compressed answers."""
    for each in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, _, parameters = each.partition(";")
        if name.strip() in ("gzip", "*"):
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def _send_response(request: BaseRequest, response: Response) -> None:
    await response.prepare(request)
    await response.write_eof()


async def _send_stream(
    request: BaseRequest, answer: Stream, extra_headers: Mapping[str, str]
) -> StreamResponse:
    headers = {
        **_ALWAYS,
        "cache-control": "no-cache",
        "content-type": answer.content_type,
        **extra_headers,
        **answer.headers,
    }
    response = StreamResponse(headers=headers)
    parts = aiter(answer.parts)
    waiting: asyncio.Future[bytes | None] | None = None
    try:
        await _within(request, response.prepare(request))
        while request.method != "HEAD":
            if waiting is None:
                waiting = asyncio.ensure_future(_next(parts))
            await asyncio.wait({waiting}, timeout=LOOK_SECONDS)
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError("the client has gone")
            if not waiting.done():
                continue
            part, waiting = waiting.result(), None
            if part is None:
                break
            if part:
                await _within(request, response.write(part))
        await _within(request, response.write_eof())
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        if close := getattr(parts, "aclose", None):
            await close()
    return response


async def _next(parts: AsyncIterator[bytes]) -> bytes | None:
    return await anext(parts, None)


async def _within(request: BaseRequest, sending: Awaitable[object]) -> None:
    """Wait until a client has taken something; cut it off if it does not read."""
    try:
        async with asyncio.timeout(WRITE_SECONDS_MAX):
            await sending
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the client does not read") from None
