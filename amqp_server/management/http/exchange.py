"""One request, from its line to its answer."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from amqp_server.management.broker_client import BrokerAway, BrokerRefused
from amqp_server.management.http.answers import (
    NOTHING,
    Answer,
    AnyAnswer,
    ApiError,
    not_authorised,
    not_found,
    vhost_not_found,
)
from amqp_server.management.http.bodies import BodyBudget
from amqp_server.management.http.call import Call
from amqp_server.management.http.cross_origin import cross_origin_headers, is_from_elsewhere
from amqp_server.management.http.refusals import AWAY, error_of
from amqp_server.management.http.responses import send
from amqp_server.management.http.routes import Match, Route, RouteTable
from amqp_server.management.http.targets import parse_target

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, StreamResponse

    from amqp_server.management.http.login import Logins
    from amqp_server.management.http.parts import Parts

logger = logging.getLogger("amqp_server.management.http.exchange")

FROM_ELSEWHERE: Final = (
    "The request comes from a page of another site, which may not change anything: "
    "--management-cors-origin names those that may"
)
REQUESTS_MAX: Final = 500
"""Requests of users that are served at the same time; others wait. Who waits for the check of a
login is not among them, so that strangers cannot hold the places."""
_JSON_TYPES: Final = ("application/json", "application/*", "*/*")
"""Types in the header Accept that mean JSON, from the most to the least specific."""


class Exchange:
    """Answers the requests of one port.

    Args:
        parts: What handlers use.
        table: The routes.
        logins: Finds out who asks.
    """

    def __init__(self, parts: Parts, table: RouteTable, logins: Logins) -> None:
        self._parts = parts
        self._table = table
        self._logins = logins
        self._origins = parts.settings.cors_origins
        self._hosts = parts.hosts
        self._bodies = BodyBudget()
        self._room = asyncio.Semaphore(REQUESTS_MAX)

    async def serve(self, request: BaseRequest) -> StreamResponse:
        """Answer a request: the handler of the HTTP library."""
        headers = cross_origin_headers(self._origins, request.headers)
        try:
            answer = await self._answer(request, headers)
        except ApiError as error:
            answer = error.answer()
        except BrokerRefused as refused:
            answer = error_of(refused).answer()
        except BrokerAway:
            answer = AWAY.answer()
        except ConnectionError:
            raise
        except Exception:
            # Nobody but the log gets to know more: a traceback is not for clients.
            logger.exception("request failed method=%s path=%s", request.method, request.raw_path)
            answer = ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "internal_error",
                "The request failed: the log of the server says why",
            ).answer()
        return await send(request, answer, headers)

    async def _answer(self, request: BaseRequest, headers: dict[str, str]) -> AnyAnswer:
        self._hosts.check(request.headers)
        target = parse_target(request.raw_path)
        match = self._table.find(target.segments)
        if match is None:
            raise not_found()
        if request.method == "OPTIONS":
            headers |= cross_origin_headers(self._origins, request.headers, match.allow)
            return Answer(HTTPStatus.OK, NOTHING, {"allow": match.allow})
        route = _route_of(match, request.method)
        if is_from_elsewhere(self._origins, request.method, request.headers):
            raise not_authorised(FROM_ELSEWHERE)
        peer = request.transport and request.transport.get_extra_info("peername")
        call = Call(
            method=route.method,
            path=target.path,
            segments=match.segments,
            query=target.query,
            headers=request.headers,
            peer_host=peer[0] if peer else "",
            peer_port=peer[1] if peer else 0,
            request=request,
            budget=self._bodies,
        )
        try:
            return await self._serve(call, route)
        finally:
            call.end()

    async def _serve(self, call: Call, route: Route) -> AnyAnswer:
        await self._admit(call, route)
        if route.requires is None:
            return await self._handle(call, route)
        async with self._room:
            return await self._handle(call, route)

    async def _handle(self, call: Call, route: Route) -> AnyAnswer:
        if call.method == "GET":
            return await route.handler(call)
        try:
            return await route.handler(call)
        finally:
            self._parts.rendered.forget()
            self._parts.mirror.expect_change()

    async def _admit(self, call: Call, route: Route) -> None:
        """Check who asks, and whether what the path names exists.

        Raises:
            ApiError: The request is refused.
        """
        vhost = call.segments.get("vhost") if route.is_vhost_checked else None
        exists = True
        if route.requires is not None:
            call.user = await self._logins.user_of(call.method, call.headers, call.peer_host)
            call.user.demand(route.requires)
            if vhost is not None:
                exists = await self._has_vhost(vhost)
                if exists:
                    call.user.demand_vhost(vhost)
        elif not route.is_for_any_host and not self._hosts.knows(call.headers):
            if not self._logins.has_login(call.headers):
                self._hosts.check_unknown(call.headers)
            await self._logins.user_of(call.method, call.headers, call.peer_host)
        if route.is_json and not accepts_json(call.headers.get("Accept")):
            raise ApiError(HTTPStatus.NOT_ACCEPTABLE)
        if not exists:
            raise vhost_not_found() if call.method in ("PUT", "POST") else not_found()

    async def _has_vhost(self, vhost: str) -> bool:
        """Return whether a virtual host exists now, even if the mirror does not show it yet."""
        if vhost not in self._parts.mirror.vhosts:
            await self._parts.mirror.refresh()
        return vhost in self._parts.mirror.vhosts


def _route_of(match: Match, method: str) -> Route:
    """Return the route of a method.

    Raises:
        ApiError: 405: the path has none. 404: there is no such path.
    """
    route = match.routes.get("GET" if method == "HEAD" else method)
    if route is None and match.is_rest:
        raise not_found()
    if route is None:
        raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, headers={"allow": match.allow})
    return route


def accepts_json(header: str | None) -> bool:
    """Return whether a client with this header takes JSON; without one it takes everything.

    Types that the API does not have, such as `application/bert`, are passed over.
    """
    if header is None or not header.strip():
        return True
    weights: dict[str, float] = {}
    for entry in header.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        weight = 1.0
        for parameter in parameters:
            key, _, text = parameter.partition("=")
            if key.strip() == "q":
                try:
                    weight = float(text)
                except ValueError:
                    weight = 0.0
        weights[name] = weight
    return next((weights[name] > 0 for name in _JSON_TYPES if name in weights), False)
