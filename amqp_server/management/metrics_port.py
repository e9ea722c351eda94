"""The port of metrics: `/metrics` and the paths below it, without a login."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from typing import TYPE_CHECKING

from amqp_server.management.broker_client import BrokerAway, BrokerRefused
from amqp_server.management.http.answers import AnyAnswer, ApiError, Octets, not_found
from amqp_server.management.http.refusals import AWAY, error_of
from amqp_server.management.http.responses import send
from amqp_server.management.http.targets import parse_target

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
        self._parts = parts
        # A package of its own; an installation without it has no metrics.
        name = "amqp_server.management.metrics"
        self._pages = importlib.import_module(name) if importlib.util.find_spec(name) else None

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
        if self._pages is None or target.segments[:1] != ("metrics",):
            raise not_found()
        if request.method not in ("GET", "HEAD"):
            raise ApiError(405, headers={"allow": "HEAD, GET"})
        path = "/" + "/".join(target.segments)
        status, content_type, body = await self._pages.metrics(
            self._parts.mirror, path, target.query
        )
        return Octets(status, content_type, body)
