"""Refuses logins on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.handshakes import Handshakes
from amqp_server.protocol.errors import AccessRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.authentication import Authentication
    from amqp_server.config import ServerConfig
    from amqp_server.protocol.connection_machine import Authenticator
    from amqp_server.testing.faults.scope import Scope


class FaultyHandshakes(Handshakes):
    """Starts handshakes that end with a refusal while one is asked for.

    Args:
        config: Settings and limits.
        authentication: Rules for logins.
        refusals: What is closed to clients; the event loop changes the list.
    """

    def __init__(
        self, config: ServerConfig, authentication: Authentication, refusals: list[Scope]
    ) -> None:
        super().__init__(config, authentication)
        self._refusals = refusals

    def authenticator(self, peer: str) -> Authenticator:
        """Return what decides whether a client at the address `peer` may log in."""
        return _FaultyAuthenticator(super().authenticator(peer), self._refusals)


class _FaultyAuthenticator:
    """Refuses while it has to; otherwise it asks another one.

    Args:
        asked: Authenticator that decides.
        refusals: What is closed to clients.

    Attributes:
        refusal: Why a login is refused.
    """

    def __init__(self, asked: Authenticator, refusals: list[Scope]) -> None:
        self.refusal = "a fault of the test"
        self._asked = asked
        self._refusals = refusals

    def login(self, user: str, password: bytes) -> bool | Awaitable[bool]:
        """Return whether the client may log in; it has not named its virtual host yet."""
        if any(each.is_everything for each in self._refusals):
            return False
        return self._asked.login(user, password)

    def login_by_certificate(self, user: str) -> bool:
        """Return whether the client may log in as the user whom its certificate names."""
        if any(each.is_everything for each in self._refusals):
            return False
        return self._asked.login_by_certificate(user)

    def check_vhost(self, user: str, name: str) -> None:
        """Check that a user may open a virtual host.

        Raises:
            AccessRefused: It is closed to clients.
            NotAllowed: It does not exist, or the user has no permission there.
        """
        if any(each.covers(name) for each in self._refusals):
            raise AccessRefused(f"access to vhost '{name}' refused by a fault of the test")
        self._asked.check_vhost(user, name)

    def secret_renewed(self, user: str, reason: str) -> None:
        """Note that a client sent a new secret and why; the secret has no effect."""
        self._asked.secret_renewed(user, reason)
