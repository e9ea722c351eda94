"""Who asks: Basic, Bearer, or the cookie of a session of the page; the broker checks it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import ApiError
from amqp_server.management.http.call import Tag, User
from amqp_server.management.http.cross_origin import CSRF_HEADER
from amqp_server.management.http.sessions import Session, Sessions

if TYPE_CHECKING:
    from amqp_server.management.http.host_rule import HostRule
    from amqp_server.management.http.login_checks import LoginChecks

COOKIE: Final = "amqp-server-session"
_REALM: Final = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
LOGIN_FAILED: Final = "Login failed"


class Logins:
    """Finds out who asks.

    Requests with the same name and password that come while one is being checked share its result.

    Args:
        checks: Checks passwords.
        hosts: Says by which names `guest` may log in.
        port: Port of the API. Cookies do not tell ports apart, so their name does.
    """

    def __init__(self, checks: LoginChecks, hosts: HostRule, port: int) -> None:
        self._checks = checks
        self._hosts = hosts
        self._cookie = f"{COOKIE}-{port}"
        self._sessions = Sessions()
        self._key = secrets.token_bytes(32)
        self._under_way: dict[tuple[bytes, str], asyncio.Task[User]] = {}

    async def user_of(self, method: str, headers: Mapping[str, str], peer_host: str) -> User:
        """Return who sends a request.

        Args:
            method: HTTP method; those that change something need the token of a session.
            headers: Headers of the request.
            peer_host: Address of the client.

        Raises:
            ApiError: 401 or 400: nobody, or not with this name and password.
        """
        header = headers.get("Authorization")
        if header is not None:
            scheme, _, text = header.partition(" ")
            if scheme.lower() == "basic":
                return await self.check(*_name_and_password(text), headers, peer_host)
            if scheme.lower() == "bearer" and text.strip():
                # A token says by itself whose it is.
                return await self.check("", _token(text), headers, peer_host)
            raise ApiError(HTTPStatus.UNAUTHORIZED, headers=_REALM)
        session = self.session_of(headers)
        if session is None:
            raise ApiError(HTTPStatus.UNAUTHORIZED, headers=self._challenge(headers))
        if method not in ("GET", "HEAD") and not session.has_csrf_token(
            headers.get(CSRF_HEADER, "")
        ):
            raise ApiError(
                HTTPStatus.UNAUTHORIZED, "not_authorised", f"The header {CSRF_HEADER} is missing"
            )
        try:
            return await self.check(session.name, session.password, headers, peer_host)
        except ApiError as error:
            if error.error == "not_authorized":
                self._sessions.end(session.token)
            error.headers.clear()
            raise

    def has_login(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request says who asks, perhaps wrongly."""
        return "Authorization" in headers or self.session_of(headers) is not None

    async def check(
        self, name: str, password: str, headers: Mapping[str, str], peer_host: str
    ) -> User:
        """Return the user with a name and a password.

        Args:
            name: Name of the user; empty for a token.
            password: Password or token.
            headers: Headers of the request.
            peer_host: Address of the client.

        Raises:
            ApiError: 401: there is none, or not from there. 421: not by this name of the server.
        """
        self._hosts.check_user(name, headers, peer_host)
        user = await self._joined(name, password, peer_host)
        self._hosts.check_user(user.name, headers, peer_host)
        return user

    async def _joined(self, name: str, password: str, peer_host: str) -> User:
        """Return who logs in; the same login that is being checked is not checked again."""
        parts = (self._key, name.encode(), password.encode())
        digest = hashlib.sha256(b"".join(b"%d:" % len(each) + each for each in parts)).digest()
        key = (digest, peer_host)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.ensure_future(self._ask(digest, name, password, peer_host))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    # Sessions

    def session_of(self, headers: Mapping[str, str]) -> Session | None:
        """Return the session whose cookie a request has; None if there is none."""
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("Cookie", ""))
        except CookieError:
            return None
        found = cookies.get(self._cookie)
        return None if found is None else self._sessions.find(found.value)

    async def begin_session(
        self,
        name: str,
        password: str,
        headers: Mapping[str, str],
        peer_host: str,
        *,
        is_tls: bool,
    ) -> tuple[User, Session, dict[str, str]]:
        """Begin a session of the page; return user, session and the header with the cookie.

        Raises:
            ApiError: 401: the password is wrong, or the user has no tag for this API.
        """
        try:
            user = await self.check(name, password, headers, peer_host)
        except ApiError as error:
            # The page shows a form; a browser would ask for a password of its own.
            error.headers.clear()
            raise
        user.demand(Tag.MANAGEMENT)
        session = self._sessions.begin(user.name, name, password)
        return user, session, {"set-cookie": self._set_cookie(session.token, is_tls=is_tls)}

    def end_session(self, session: Session, *, is_tls: bool) -> dict[str, str]:
        """End a session; return the header that removes the cookie."""
        self._sessions.end(session.token)
        return {"set-cookie": self._set_cookie("", is_tls=is_tls) + "; Max-Age=0"}

    def _set_cookie(self, value: str, *, is_tls: bool) -> str:
        secure = "; Secure" if is_tls else ""
        return f"{self._cookie}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"

    # The broker's check

    async def _ask(self, digest: bytes, name: str, password: str, peer_host: str) -> User:
        try:
            found = await self._checks.check(digest, name, password, peer_host)
        except BrokerRefused as refused:
            if refused.kind != "refused":
                raise
            reason = refused.details.get("reason", LOGIN_FAILED)
            raise ApiError(
                HTTPStatus.UNAUTHORIZED, "not_authorized", str(reason), _REALM
            ) from refused
        vhosts = frozenset(found["vhosts"])
        return User(found["name"], tuple(found["tags"]), vhosts, found.get("login", ""))

    def _forget(self, key: tuple[bytes, str], task: asyncio.Task[User]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            # All who asked may have gone: an error that nobody takes is no mistake.
            task.exception()

    def _challenge(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the header that makes a browser ask for a password: not for the page's scripts.

        The page has a form of its own.
        """
        is_script = headers.get("Sec-Fetch-Dest") == "empty"
        return {} if is_script or self._cookie in headers.get("Cookie", "") else _REALM


def _token(text: str) -> str:
    """Return what the header Authorization has.

    Raises:
        ApiError: 400 without a body: it is not UTF-8.
    """
    try:
        # Octets of a header that are no UTF-8 come as surrogates.
        text.encode()
    except UnicodeEncodeError:
        raise ApiError(HTTPStatus.BAD_REQUEST) from None
    return text.strip()


def _name_and_password(text: str) -> tuple[str, str]:
    """Return what the header Authorization has.

    Raises:
        ApiError: 400 without a body: it is not Base64 of `name:password` in UTF-8.
    """
    try:
        decoded = base64.b64decode(text.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise ApiError(HTTPStatus.BAD_REQUEST) from None
    name, colon, password = decoded.partition(":")
    if not colon:
        raise ApiError(HTTPStatus.BAD_REQUEST)
    return name, password
