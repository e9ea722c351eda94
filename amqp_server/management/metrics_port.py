"""The port of metrics: `/metrics` and the paths below it, without a login."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.management.broker_client import BrokerAway, BrokerRefused
from amqp_server.management.http.answers import AnyAnswer, ApiError, Octets, not_found
from amqp_server.management.http.refusals import AWAY, error_of
from amqp_server.management.http.responses import send
from amqp_server.management.http.targets import parse_target
from amqp_server.management.metrics.page_server import PageServer

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, StreamResponse

    from amqp_server.management.http.parts import Parts

logger = logging.getLogger(__name__)


class MetricsPort:
    """Answers the requests of the port of metrics.

    Args:
        parts: What the pages are made from.
    """

    def __init__(self, parts: Parts) -> None:
        self._pages = PageServer(parts.mirror)

    async def serve(self, request: BaseRequest) -> StreamResponse:
        """Answer a request: the handler of the HTTP library."""
        try:
            answer = await self._answer(request)
        except ApiError as error:
            answer = error.answer()
        except BrokerRefused as refused:
            answer = error_of(refused).answer()
        except BrokerAway:
            answer = AWAY.answer()
        except ConnectionError:
            raise
        except Exception:
            logger.exception("metrics failed path=%s", request.raw_path)
            answer = ApiError(500, "internal_error", "The log of the server says why").answer()
        return await send(request, answer, {})

    async def _answer(self, request: BaseRequest) -> AnyAnswer:
        target = parse_target(request.raw_path)
        if target.segments[:1] != ("metrics",):
            raise not_found()
        if request.method not in ("GET", "HEAD"):
            raise ApiError(405, headers={"allow": "HEAD, GET"})
        headers = request.headers
        answer = await self._pages.answer(
            "/" + "/".join(target.segments),
            request.raw_path.partition("?")[2],
            headers.get("Accept", ""),
            headers.get("Accept-Encoding", ""),
        )
        packed = {"content-encoding": "gzip"} if answer.is_gzipped else {}
        return Octets(
            answer.status, answer.content_type, answer.body, packed, is_packed=answer.is_gzipped
        )
