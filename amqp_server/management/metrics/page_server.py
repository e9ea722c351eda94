"""Answers requests for pages of metrics: made in pieces, kept for a second, bounded."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Final

from amqp_server.management.metrics.collector import Identity, identity_text
from amqp_server.management.metrics.exposition import CONTENT_TYPE
from amqp_server.management.metrics.object_filter import InvalidFilterError, ObjectFilter
from amqp_server.management.metrics.page_query import (
    PageQuery,
    PageRefusedError,
    accepts_gzip,
    check_accepts_text,
    parse_page_query,
)
from amqp_server.management.metrics.pages import detailed, memory_breakdown, per_object, sums

if TYPE_CHECKING:
    from amqp_server.management.metrics.pages import Pieces
    from amqp_server.management.metrics.readable_mirror import ReadableMirror

KEPT_SECONDS: Final = 1.0
"""How long a page is given to others who ask for the same."""
PAGES_MAX: Final = 16
"""Different pages that are made, wait for that, or are kept. More are refused."""
MAKING_MAX: Final = 2
"""Pages that are made at a time; each may have tens of megabytes."""
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Length of the pages that are kept, all together; what is above is made again."""
SLICE_SECONDS: Final = 0.002
"""Time after which the making of a page lets other requests work."""
_ENDPOINTS: Final = {
    "default": "aggregated",
    "per-object": "per-object",
    "detailed": "detailed",
    "memory-breakdown": "memory-breakdown",
}
"""For each page the label by which dashboards choose it."""
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """An answer to a request.

    Attributes:
        status: HTTP status.
        content_type: Value of the header.
        body: The body, compressed or not.
        is_gzipped: Whether the body is compressed.
    """

    status: int
    content_type: str
    body: bytes
    is_gzipped: bool = False


class PageServer:
    """Makes the pages of metrics. The event loop of the management server owns it.

    Args:
        mirror: State of the broker; brought up to date for each page.
        identity: Who the broker is.
    """

    def __init__(self, mirror: ReadableMirror, identity: Identity | None = None) -> None:
        self._mirror = mirror
        self._identity = Identity() if identity is None else identity
        self._pages: dict[tuple[PageQuery, bool], asyncio.Task[bytes]] = {}
        self._making = asyncio.Semaphore(MAKING_MAX)
        self._kept_bytes = 0

    async def answer(
        self, path: str, query: str = "", accept: str = "", accept_encoding: str = ""
    ) -> PageAnswer:
        """Answer a request; errors of the mirror pass through.

        Args:
            path: Decoded path, from `/metrics` on.
            query: Query as it was sent.
            accept: Header `Accept`, empty if it was not sent.
            accept_encoding: Header `Accept-Encoding`, likewise.
        """
        try:
            check_accepts_text(accept)
            wanted = parse_page_query(path, query)
            is_gzipped = accepts_gzip(accept_encoding)
            body = await self._page(wanted, is_gzipped=is_gzipped)
        except PageRefusedError as refused:
            return PageAnswer(refused.status, CONTENT_TYPE, refused.text.encode())
        except InvalidFilterError as invalid:
            return PageAnswer(HTTPStatus.BAD_REQUEST, CONTENT_TYPE, str(invalid).encode())
        return PageAnswer(HTTPStatus.OK, CONTENT_TYPE, body, is_gzipped)

    async def _page(self, wanted: PageQuery, *, is_gzipped: bool) -> bytes:
        key = (wanted, is_gzipped)
        making = self._pages.get(key)
        if making is None:
            wanted_objects = ObjectFilter(wanted.vhosts, wanted.queue_pattern)
            if len(self._pages) >= PAGES_MAX:
                raise PageRefusedError(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"{PAGES_MAX} different pages are under way, ask again in a second",
                )
            making = asyncio.create_task(
                self._make(wanted, wanted_objects, is_gzipped=is_gzipped), name="page of metrics"
            )
            self._pages[key] = making
            making.add_done_callback(lambda made: self._keep(key, made))
        # A client that goes away does not end the page for the others who wait for it.
        return await asyncio.shield(making)

    def _keep(self, key: tuple[PageQuery, bool], made: asyncio.Task[bytes]) -> None:
        if made.cancelled() or made.exception() is not None:
            del self._pages[key]
            return
        length = len(made.result())
        self._kept_bytes += length
        is_kept = self._kept_bytes <= KEPT_BYTES_MAX
        made.get_loop().call_later(KEPT_SECONDS if is_kept else 0, self._drop, key, length)

    def _drop(self, key: tuple[PageQuery, bool], length: int) -> None:
        del self._pages[key]
        self._kept_bytes -= length

    async def _make(self, wanted: PageQuery, objects: ObjectFilter, *, is_gzipped: bool) -> bytes:
        async with self._making:
            await self._mirror.refresh()
            await self._mirror.exports.refresh()
            return await _joined(self._text(wanted, objects), is_gzipped=is_gzipped)

    def _text(self, wanted: PageQuery, objects: ObjectFilter) -> Pieces:
        match wanted.page:
            case "detailed":
                page = detailed(self._mirror, wanted.families, objects)
            case "per-object":
                page = per_object(self._mirror)
            case "memory-breakdown":
                page = memory_breakdown(self._mirror)
            case _:
                page = sums(self._mirror)
        return chain(page, identity_text(self._mirror, self._identity, _ENDPOINTS[wanted.page]))


async def _joined(texts: Pieces, *, is_gzipped: bool) -> bytes:
    """Return the pieces of a page together; other requests work between any two of them."""
    pieces: list[bytes] = []
    compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP) if is_gzipped else None
    began = perf_counter()
    for text in texts:
        piece = text.encode("utf-8")
        pieces.append(piece if compressor is None else compressor.compress(piece))
        if perf_counter() - began > SLICE_SECONDS:
            await asyncio.sleep(0)
            began = perf_counter()
    if compressor is not None:
        pieces.append(compressor.flush())
    return b"".join(pieces)
