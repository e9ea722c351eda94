"""The commands `logins.check` and `passwords.hash`."""

from __future__ import annotations

import asyncio
import time
from inspect import isawaitable
from typing import TYPE_CHECKING, Final

from amqp_server.access.passwords import SCRYPT, SHA256, SHA512, PasswordHash
from amqp_server.audit.actor import Actor
from amqp_server.authentication import GUEST, is_loopback
from amqp_server.broker.counters.auth_attempts import HTTP
from amqp_server.control.messages import ControlError, ErrorKind
from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.access.access_control import AccessControl
    from amqp_server.audit.audit_log import AuditLog
    from amqp_server.broker.counters.auth_attempts import AuthAttempts
    from amqp_server.config import ServerConfig
    from amqp_server.handshakes import Handshakes

LOGIN_FAILED: Final = "Login failed"
ONLY_LOCALHOST: Final = "User can only log in via localhost"
PASSWORD_BYTES_MAX: Final = 4096
"""Longest password; a client of AMQP may not send a longer frame before its login."""
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
        handshakes: Decides who may log in from where.
        access: Users and permissions.
        audit: Records logins and refusals.
        attempts: Counts logins.
        now: Returns seconds that never decrease.
    """

    def __init__(
        self,
        config: ServerConfig,
        handshakes: Handshakes,
        access: AccessControl,
        audit: AuditLog,
        attempts: AuthAttempts,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._handshakes = handshakes
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
        authenticator = self._handshakes.authenticator(peer_host)
        answer = authenticator.login(user, octets[:PASSWORD_BYTES_MAX])
        is_accepted = await answer if isawaitable(answer) else answer
        actor = Actor(user, peer_host)
        found = self._access.users.get(user)
        if not is_accepted or found is None or len(octets) > PASSWORD_BYTES_MAX:
            self._attempts.note(HTTP, accepted=False)
            self._audit.record_refusal(actor, authenticator.refusal or LOGIN_FAILED)
            is_remote_guest = user == GUEST and not (
                self._config.guest_from_anywhere or is_loopback(peer_host)
            )
            raise _refused(ONLY_LOCALHOST if is_remote_guest else LOGIN_FAILED)
        self._attempts.note(HTTP, accepted=True)
        self._record(actor)
        vhosts = sorted(name for name, users in self._access.permissions.items() if user in users)
        return {"name": found.name, "tags": list(found.tags), "vhosts": vhosts}

    def _record(self, actor: Actor) -> None:
        key, now = (actor.user, actor.peer), self._now()
        if now - self._recorded.get(key, -RECORDED_SECONDS) < RECORDED_SECONDS:
            return
        # To the end: the first one is the oldest.
        self._recorded.pop(key, None)
        if len(self._recorded) >= RECORDED_MAX:
            del self._recorded[next(iter(self._recorded))]
        self._recorded[key] = now
        details = {"mechanism": "HTTP"}
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
    handshakes: Handshakes,
    access: AccessControl,
    audit: AuditLog,
    attempts: AuthAttempts,
) -> tuple[Command, ...]:
    """Return the commands that check and hash the passwords of a server with these parts."""
    checks = LoginChecks(config, handshakes, access, audit, attempts)
    return (
        Command(
            "logins.check",
            checks.check,
            {"user": str, "password": str, "peer_host": str},
        ),
        Command("passwords.hash", hash_password, {"password": str}, {"algorithm": str}),
    )
