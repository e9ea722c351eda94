"""Refuses logins on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.handshakes import Handshakes
from amqp_server.protocol.errors import AccessRefused

if TYPE_CHECKING:
    from collections.abc import Container

    from amqp_server.config import ServerConfig
    from amqp_server.protocol.connection_machine import Authenticator
    from amqp_server.testing.faults.scope import Scope


class FaultyHandshakes(Handshakes):
    """Starts handshakes that end with a refusal while one is asked for.

    Args:
        config: Settings and limits.
        vhosts: Names of the virtual hosts that exist; the broker changes it.
        refusals: What is closed to clients; the event loop changes the list.
    """

    def __init__(self, config: ServerConfig, vhosts: Container[str], refusals: list[Scope]) -> None:
        super().__init__(config, vhosts)
        self._refusals = refusals

    def authenticator(self, peer: str) -> Authenticator:
        """Return what decides whether a client at the address `peer` may log in."""
        return _FaultyAuthenticator(super().authenticator(peer), self._refusals)


class _FaultyAuthenticator:
    """Refuses while it has to; otherwise it asks another one.

    Args:
        asked: Authenticator that decides.
        refusals: What is closed to clients.
    """

    def __init__(self, asked: Authenticator, refusals: list[Scope]) -> None:
        self._asked = asked
        self._refusals = refusals

    def may_login(self, user: str, password: bytes) -> bool:
        """Return whether the client may log in; it has not named its virtual host yet."""
        if any(each.is_everything for each in self._refusals):
            return False
        return self._asked.may_login(user, password)

    def has_vhost(self, name: str) -> bool:
        """Return whether a virtual host exists.

        Raises:
            AccessRefused: It is closed to clients.
        """
        if any(each.covers(name) for each in self._refusals):
            raise AccessRefused(f"access to vhost '{name}' refused by a fault of the test")
        return self._asked.has_vhost(name)

    def secret_renewed(self, user: str, reason: str) -> None:
        """Note that a client sent a new secret and why; the secret has no effect."""
        self._asked.secret_renewed(user, reason)
