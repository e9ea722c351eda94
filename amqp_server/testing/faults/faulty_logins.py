"""Refuses logins on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.connections.authentication import PeerAuthenticator
from amqp_server.connections.handshake_factory import HandshakeFactory
from amqp_server.protocol.errors import AccessRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.base.config import ServerConfig
    from amqp_server.connections.authentication import Authentication
    from amqp_server.testing.faults.scope import Scope


class FaultyHandshakeFactory(HandshakeFactory):
    """Makes handshakes that end with a refusal while one is asked for.

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

    def authenticator(self, peer: str) -> PeerAuthenticator:
        """Return what decides whether a client at the address `peer` may log in."""
        return _FaultyAuthenticator(peer, self.authentication, self._refusals)


class _FaultyAuthenticator(PeerAuthenticator):
    """Refuses while it has to.

    Args:
        peer: IP address of the peer.
        rules: Rules of the server.
        refusals: What is closed to clients.
    """

    def __init__(self, peer: str, rules: Authentication, refusals: list[Scope]) -> None:
        super().__init__(peer, rules)
        self.refusal = "a fault of the test"
        self._refusals = refusals

    def login(self, user: str, password: bytes) -> bool | Awaitable[bool]:
        """Return whether the client may log in; it has not named its virtual host yet."""
        if any(each.is_everything for each in self._refusals):
            return False
        return super().login(user, password)

    def login_by_certificate(self, user: str) -> bool | Awaitable[bool]:
        """Return whether the client may log in as the user whom its certificate names."""
        if any(each.is_everything for each in self._refusals):
            return False
        return super().login_by_certificate(user)

    def check_vhost(self, user: str, name: str) -> None:
        """Check that a user may open a virtual host.

        Raises:
            AccessRefused: It is closed to clients.
            NotAllowed: It does not exist, or the user has no permission there.
        """
        if any(each.covers(name) for each in self._refusals):
            raise AccessRefused(f"access to vhost '{name}' refused by a fault of the test")
        super().check_vhost(user, name)
