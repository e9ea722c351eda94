"""The session of the page: `/session`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.management.http.answers import NO_CONTENT, Answer, ApiError, ok
from amqp_server.management.http.cross_origin import CSRF_HEADER
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import require, text

if TYPE_CHECKING:
    from amqp_server.management.http.answers import AnyAnswer
    from amqp_server.management.http.call import Call, User
    from amqp_server.management.http.login import Logins
    from amqp_server.management.http.sessions import Session


class _SessionResource:
    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    async def begin(self, call: Call) -> AnyAnswer:
        body = await call.body()
        require(body, "username", "password")
        name, password = text(body, "username", ""), text(body, "password", "")
        user, session, headers = await self._logins.begin_session(
            name, password, call.headers, call.peer_host, is_tls=_is_tls(call)
        )
        return Answer(200, _shown(user, session), headers)

    async def show(self, call: Call) -> AnyAnswer:
        session = self._logins.session_of(call.headers)
        if session is None:
            raise ApiError(401, "not_authorized", "Not logged in")
        user = await self._logins.check(
            session.name, session.password, call.headers, call.peer_host
        )
        return ok(_shown(user, session))

    async def end(self, call: Call) -> AnyAnswer:
        session = self._logins.session_of(call.headers)
        if session is None:
            return NO_CONTENT
        if not session.has_csrf_token(call.headers.get(CSRF_HEADER, "")):
            raise ApiError(401, "not_authorised", f"The header {CSRF_HEADER} is missing")
        headers = self._logins.end_session(session, is_tls=_is_tls(call))
        return Answer(204, NO_CONTENT.value, headers)


def _is_tls(call: Call) -> bool:
    return call.request.transport is not None and bool(
        call.request.transport.get_extra_info("ssl_object")
    )


def _shown(user: User, session: Session) -> dict[str, Any]:
    return {"name": user.name, "tags": user.tags, "csrf_token": session.csrf_token}


def session_routes(logins: Logins) -> list[Route]:
    """Return the routes of sessions.

    Args:
        logins: Keeps the sessions.
    """
    session = _SessionResource(logins)
    return [
        Route("POST", "/session", session.begin, requires=None, is_for_any_host=True),
        Route("GET", "/session", session.show, requires=None, is_for_any_host=True),
        Route("DELETE", "/session", session.end, requires=None, is_for_any_host=True),
    ]
