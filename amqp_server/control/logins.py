"""The commands `logins.check`, `logins.known` and `passwords.hash`."""

from __future__ import annotations

import asyncio
import time
from inspect import isawaitable
from typing import TYPE_CHECKING, Final

from amqp_server.access.backends.login import INTERNAL
from amqp_server.access.backends.questions import UNDER_WAY_MAX
from amqp_server.access.grants import UnansweredError
from amqp_server.access.passwords import SCRYPT, SHA256, SHA512, PasswordHash
from amqp_server.audit.actor import Actor
from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.counters.broker_counters import HTTP
from amqp_server.connections.authentication import ONLY_FROM_HERE
from amqp_server.connections.connection_attributes import backend_details
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.access.access_control import AccessControl
    from amqp_server.access.backends.login import Login
    from amqp_server.audit.audit_log import AuditLog
    from amqp_server.base.config import ServerConfig
    from amqp_server.broker.counters.broker_counters import AuthAttempts
    from amqp_server.connections.handshake_factory import HandshakeFactory

LOGIN_FAILED: Final = "Login failed"
ONLY_LOCALHOST: Final = "User can only log in via localhost"
PASSWORD_BYTES_MAX: Final = 4096
"""Longest password of which a hash is made."""
SECRET_BYTES_MAX: Final = 32 * 1024
"""Longest password that is checked; it may be a token."""
VHOSTS_ASKED_MAX: Final = 1000
"""Virtual hosts for which another back end is asked whether a user may open them."""
VHOSTS_SECONDS_MAX: Final = 10.0
"""Time for all of these questions."""
RECORDED_SECONDS: Final = 60.0
"""Time after which an accepted login is recorded again."""
RECORDED_MAX: Final = 4096
"""Users and addresses that are remembered for that."""
_QUICK: Final = (SHA256, SHA512)


class LoginChecks:
    """Checks logins for programs that let users in, and records them. The event loop owns it.

    Each request of such a program may check its login again, so an accepted one is recorded once a
    minute for each address.

    Args:
        config: Settings.
        handshake_factory: Decides who may log in from where.
        access: Users and permissions.
        audit: Records logins and refusals.
        attempts: Counts logins.
        now: Returns seconds that never decrease.
    """

    def __init__(
        self,
        config: ServerConfig,
        handshake_factory: HandshakeFactory,
        access: AccessControl,
        audit: AuditLog,
        attempts: AuthAttempts,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._handshake_factory = handshake_factory
        self._access = access
        self._audit = audit
        self._attempts = attempts
        self._now = now
        # When each user was recorded last, from each address.
        self._recorded: dict[tuple[str, str], float] = {}

    async def check(self, user: str, password: str, peer_host: str) -> dict[str, object]:
        """Return who logs in with this name and password, and in which virtual hosts it may work.

        Args:
            user: Name that was given.
            password: Password that was given.
            peer_host: IP address of the client.

        Raises:
            ControlError: The login is refused.
        """
        octets = password.encode("utf-8", "surrogatepass")
        authenticator = self._handshake_factory.authenticator(peer_host)
        is_accepted = False
        if len(octets) <= SECRET_BYTES_MAX:
            answer = authenticator.login(user, octets)
            is_accepted = await answer if isawaitable(answer) else answer
        if not is_accepted:
            self._attempts.count(HTTP, accepted=False)
            reason = authenticator.refusal or LOGIN_FAILED
            self._audit.record_refusal(Actor(user, peer_host), reason)
            is_remote = reason == ONLY_FROM_HERE
            raise _refused(ONLY_LOCALHOST if is_remote else LOGIN_FAILED)
        login = authenticator.accepted
        vhosts = self._own_vhosts_of(login)
        if vhosts is None:
            vhosts = await self._vhosts_of(login)
        return self._accepted(login, vhosts, peer_host)

    async def known(self, user: str, password: str, peer_host: str) -> dict[str, object] | None:
        """Return what `check` returns, if that is known at once; else None. It never waits.

        Args:
            user: Name that was given.
            password: Password that was given.
            peer_host: IP address of the client.
        """
        octets = password.encode("utf-8", "surrogatepass")
        authenticator = self._handshake_factory.authenticator(peer_host)
        if len(octets) > SECRET_BYTES_MAX or not authenticator.known_login(user, octets):
            return None
        login = authenticator.accepted
        vhosts = self._own_vhosts_of(login)
        if vhosts is None:
            try:
                vhosts = await self._known_vhosts_of(login)
            except UnansweredError:
                return None
        return self._accepted(login, vhosts, peer_host)

    def _accepted(self, login: Login, vhosts: list[str], peer_host: str) -> dict[str, object]:
        """Record a login, and return what is said of it."""
        self._attempts.count(HTTP, accepted=True)
        self._record(Actor(login.user, peer_host), login.backend)
        found: dict[str, object] = {
            "name": login.user,
            "tags": list(login.tags),
            "vhosts": vhosts,
        }
        if login.backend == INTERNAL:
            return found
        return {**found, "login": self._access.visitors.admit(login, peer_host)}

    def _own_vhosts_of(self, login: Login) -> list[str] | None:
        """Return the virtual hosts of one of the server's own users; None for other users."""
        if login.backend != INTERNAL:
            return None
        rows = self._access.permissions.items()
        return sorted(name for name, users in rows if login.user in users)

    async def _known_vhosts_of(self, login: Login) -> list[str]:
        """Return what `_vhosts_of` returns, from answers that are known.

        Raises:
            UnansweredError: One of them is not.
        """
        time_slice = TimeSlice()
        found = []
        for vhost in self._access.vhost_names[:VHOSTS_ASKED_MAX]:
            await time_slice.yield_if_due()
            if login.rules.may_access(login.user, vhost):
                found.append(vhost)
        return found

    async def _vhosts_of(self, login: Login) -> list[str]:
        """Return the virtual hosts that a user of another back end may open.

        What the back end does not answer in time counts as closed.
        """
        places = asyncio.Semaphore(UNDER_WAY_MAX)
        time_slice = TimeSlice()

        async def is_open(vhost: str) -> bool:
            async with places:
                await time_slice.yield_if_due()
                while True:
                    try:
                        return login.rules.may_access(login.user, vhost)
                    except UnansweredError as unanswered:
                        await asyncio.wait([unanswered.answer])

        names = self._access.vhost_names[:VHOSTS_ASKED_MAX]
        tasks = [asyncio.ensure_future(is_open(name)) for name in names]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=VHOSTS_SECONDS_MAX)
        finally:
            # Also if no request waits any more: the program has gone, or the server stops.
            for task in tasks:
                task.cancel()
        asked = zip(names, tasks, strict=True)
        return [name for name, task in asked if task.done() and task.result()]

    def _record(self, actor: Actor, backend: str) -> None:
        key, now = (actor.user, actor.peer), self._now()
        if now - self._recorded.get(key, -RECORDED_SECONDS) < RECORDED_SECONDS:
            return
        # To the end: the first one is the oldest.
        self._recorded.pop(key, None)
        if len(self._recorded) >= RECORDED_MAX:
            del self._recorded[next(iter(self._recorded))]
        self._recorded[key] = now
        details = {"mechanism": "HTTP", **backend_details(backend)}
        self._audit.record("user.authentication.success", actor, details=details, is_session=True)


def _refused(reason: str) -> ControlError:
    return ControlError(ErrorKind.REFUSED, reason, {"reason": reason})


async def hash_password(password: str, algorithm: str = SCRYPT) -> dict[str, str]:
    """Return a new hash of a password, made in a worker.

    Args:
        password: The password.
        algorithm: Our slow one, or one that RabbitMQ reads: SHA-256 or SHA-512.

    Raises:
        ControlError: The password is empty or too long, or no hash is made with the algorithm.
    """
    octets = password.encode("utf-8", "surrogatepass")
    if not 0 < len(octets) <= PASSWORD_BYTES_MAX:
        reason = f"a password must have 1 to {PASSWORD_BYTES_MAX} bytes"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if algorithm == SCRYPT:
        made = await asyncio.to_thread(PasswordHash.of, octets)
    elif algorithm in _QUICK:
        made = PasswordHash.quick(octets, algorithm)
    else:
        known = ", ".join((SCRYPT, *_QUICK))
        reason = f"algorithm is '{algorithm}', must be one of {known}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    return {"password_hash": made.text, "hashing_algorithm": made.algorithm}


def login_commands(
    config: ServerConfig,
    handshake_factory: HandshakeFactory,
    access: AccessControl,
    audit: AuditLog,
    attempts: AuthAttempts,
) -> tuple[Command, ...]:
    """Return the commands that check and hash the passwords of a server with these parts."""
    checks = LoginChecks(config, handshake_factory, access, audit, attempts)
    return (
        Command(
            "logins.check",
            checks.check,
            {"user": str, "password": str, "peer_host": str},
        ),
        Command(
            "logins.known",
            checks.known,
            {"user": str, "password": str, "peer_host": str},
        ),
        Command("passwords.hash", hash_password, {"password": str}, {"algorithm": str}),
    )
