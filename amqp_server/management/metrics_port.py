"""The port of metrics: `/metrics` and the paths below it, without a login."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from amqp_server.base.compatible_version import compatible_version
from amqp_server.management.broker_client import BrokerAway, BrokerRefused
from amqp_server.management.http.answers import AnyAnswer, ApiError, Octets, not_found
from amqp_server.management.http.refusals import AWAY, error_of
from amqp_server.management.http.responses import send
from amqp_server.management.http.targets import parse_target
from amqp_server.management.metrics.collector import Identity
from amqp_server.management.metrics.page_server import PageServer

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, StreamResponse

    from amqp_server.management.http.parts import Parts

logger = logging.getLogger("amqp_server.management.metrics_port")

SENT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Length of the pages that are sent at a time; more readers than that are refused."""
_BUSY: Final = ApiError(503, "unavailable", "Too many pages are being sent: try again")


class MetricsPort:
    """Answers the requests of the port of metrics.

    Args:
        parts: What the pages are made from.
    """

    def __init__(self, parts: Parts) -> None:
        settings = parts.settings
        version = compatible_version(settings.presented_version)
        identity = Identity(settings.node_name, version)
        self._pages = PageServer(parts.mirror, identity)
        self._hosts = parts.hosts
        self._sent_bytes = 0

    async def serve(self, request: BaseRequest) -> StreamResponse:
        """Answer a request: the handler of the HTTP library."""
        answer = await self._answer_or_error(request)
        length = len(answer.body) if isinstance(answer, Octets) else 0
        if self._sent_bytes and self._sent_bytes + length > SENT_BYTES_MAX:
            answer, length = _BUSY.answer(), 0
        self._sent_bytes += length
        try:
            return await send(request, answer, {})
        finally:
            self._sent_bytes -= length

    async def _answer_or_error(self, request: BaseRequest) -> AnyAnswer:
        try:
            return await self._answer(request)
        except ApiError as error:
            return error.answer()
        except BrokerRefused as refused:
            return error_of(refused).answer()
        except BrokerAway:
            return AWAY.answer()
        except ConnectionError:
            raise
        except Exception:
            logger.exception("metrics failed path=%s", request.raw_path)
            return ApiError(500, "internal_error", "The log of the server says why").answer()

    async def _answer(self, request: BaseRequest) -> AnyAnswer:
        peer = request.transport and request.transport.get_extra_info("peername")
        self._hosts.check_scrape(request.headers, peer[0] if peer else "")
        raw_path, _, query = request.raw_path.partition("?")
        segments = parse_target(raw_path).segments
        if segments[:1] != ("metrics",):
            raise not_found()
        if request.method not in ("GET", "HEAD"):
            raise ApiError(405, headers={"allow": "HEAD, GET"})
        page = await self._pages.answer(
            "/" + "/".join(segments),
            query,
            request.headers.get("Accept", ""),
            request.headers.get("Accept-Encoding", ""),
        )
        headers = {"content-encoding": "gzip"} if page.is_gzipped else {}
        return Octets(page.status, page.content_type, page.body, headers, is_packed=page.is_gzipped)
