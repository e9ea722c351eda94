"""Closes a session when what its user has logged in with expires."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.turn import Turn
    from amqp_server.connections.authentication import PeerAuthenticator

logger = logging.getLogger("amqp_server.client_session")

EXPIRY_LOOK_SECONDS: Final = 60.0
"""Longest time until the server looks again whether a credential has expired."""


class ExpiringSession(Protocol):
    """The session of a user who has logged in.

    Attributes:
        name: Name of the connection in log lines.
        user: Name of the user.
    """

    name: str
    user: str

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done and neither side has begun to close."""

    def force_close(self, explanation: str) -> Iterator[None]:
        """Close the session in steps."""


class CredentialExpiry:
    """When the credential of one session expires.

    Args:
        turn: Turn that closes the session.
        authenticator: Knows until when the credential is good.
    """

    def __init__(self, turn: Turn, authenticator: PeerAuthenticator) -> None:
        self._turn = turn
        self._authenticator = authenticator
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, session: ExpiringSession) -> None:
        """Close the connection when what the user has logged in with expires.

        Never before this returns, although it may have expired already: the caller handles an event
        of the session.
        """
        self.cancel()
        at_seconds = self._authenticator.expires_seconds
        if at_seconds is None or not session.is_open:
            return
        # The clock may be set: look again now and then.
        wait_seconds = min(max(at_seconds - time.time(), 0.0), EXPIRY_LOOK_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(
            wait_seconds, self._close_if_expired, session, at_seconds
        )

    def _close_if_expired(self, session: ExpiringSession, at_seconds: float) -> None:
        if at_seconds > time.time() or not session.is_open:
            self.watch(session)
            return
        self._timer = None
        logger.warning("credential expired peer=%s user=%s", session.name, session.user)
        Job(
            self._turn,
            self._turn.endings,
            session.force_close("credential expired"),
            f"expired credential of client {session.name!r}",
        ).start()

    def cancel(self) -> None:
        """Watch no longer: a newer credential has come, or the client is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
