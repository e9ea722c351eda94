"""Decides who may log in from where, and logs who may not."""

from __future__ import annotations

import ipaddress
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from amqp_server.access.login_line import FullLineError
from amqp_server.protocol.errors import NotAllowed
from amqp_server.socket_names import share_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Container

    from amqp_server.access.access_control import AccessControl
    from amqp_server.access.logins import Logins
    from amqp_server.config import ServerConfig
    from amqp_server.connection_limits import ConnectionLimits

logger = logging.getLogger(__name__)

GUEST: Final = "guest"
"""The one user who may log in from this machine only, as in RabbitMQ."""
_LOGGED_CHARACTERS_MAX: Final = 64
"""Characters of a refused user name that are logged: a client may send a very long one."""


class Authentication:
    """The rules of a server for logins, shared by its connections.

    Args:
        config: Settings.
        access: Users and permissions.
        logins: Checks passwords.
        vhosts: The virtual hosts by name; the broker changes it.
        limits: Limits of virtual hosts and users.
    """

    def __init__(
        self,
        config: ServerConfig,
        access: AccessControl,
        logins: Logins,
        vhosts: Container[str],
        limits: ConnectionLimits,
    ) -> None:
        self.access = access
        self.logins = logins
        self.vhosts = vhosts
        self.limits = limits
        self.guest_from_anywhere = config.guest_from_anywhere
        self.warning = ProxyWarning(from_anywhere=config.guest_from_anywhere)


class PeerAuthenticator:
    """Authenticator of one peer; `amqp_server.protocol.connection_machine.Authenticator`.

    Args:
        peer: IP address of the peer.
        rules: Rules of the server.

    Attributes:
        refusal: Why it has refused the last login; not for the client.
    """

    def __init__(self, peer: str, rules: Authentication) -> None:
        self.refusal = ""
        self._peer = peer
        self._rules = rules

    def login(self, user: str, password: bytes) -> bool | Awaitable[bool]:
        """Return whether the peer may log in with this name and password from its address.

        A refusal takes time, and the peer does not learn the reason: its error refers to the log.
        """
        if user == GUEST and not (self._rules.guest_from_anywhere or is_loopback(self._peer)):
            return self._refuse(user, "only from this machine")
        if self._rules.logins.is_known(user, password):
            self._accepted(user)
            return True
        return self._check(user, password)

    def login_by_certificate(self, user: str) -> bool:
        """Return whether the peer may log in as the user whom its certificate names.

        Args:
            user: Name in a verified certificate; empty if it has none there.
        """
        if not user:
            self._log(user, "no certificate, or no name in it where ssl-cert-login-from looks")
        elif user == GUEST and not (self._rules.guest_from_anywhere or is_loopback(self._peer)):
            self._log(user, "only from this machine")
        elif user not in self._rules.access.users:
            self._log(user, "its certificate names no user of this server")
        else:
            return True
        return False

    async def _check(self, user: str, password: bytes) -> bool:
        try:
            accepted = await self._rules.logins.check(user, password, share_of(self._peer))
        except FullLineError:
            self._log(user, "too many logins wait for their check")
            return False
        if accepted:
            self._accepted(user)
        else:
            self._log(user, "unknown user or wrong password")
        return accepted

    async def _refuse(self, user: str, reason: str) -> bool:
        self._log(user, reason)
        with suppress(FullLineError):
            await self._rules.logins.refuse(share_of(self._peer))
        return False

    def _accepted(self, user: str) -> None:
        if user == GUEST:
            self._rules.warning.guest_logged_in(self._peer)

    def _log(self, user: str, reason: str) -> None:
        self.refusal = reason
        shown = user[:_LOGGED_CHARACTERS_MAX]
        logger.warning("login refused user=%r peer=%s reason=%s", shown, self._peer, reason)

    def check_vhost(self, user: str, name: str) -> None:
        """Check that a user may open a virtual host.

        Raises:
            NotAllowed: The virtual host does not exist, a limit is reached, or the user has no
                permission there.
        """
        if name not in self._rules.vhosts:
            raise NotAllowed(f"vhost {name} not found")
        # As in RabbitMQ, before the permission.
        self._rules.limits.check_connection(user, name)
        if not self._rules.access.may_access(user, name):
            raise NotAllowed(f"access to vhost '{name}' refused for user '{user}'")

    def secret_renewed(self, user: str, reason: str) -> None:
        """Log that a client sent a new secret, and that it has no effect."""
        logger.info(
            "secret renewed peer=%s user=%s reason=%r note=passwords are checked at the login only",
            self._peer,
            user,
            reason,
        )


class ProxyWarning:
    """Warns once that clients of a proxy on this machine may log in as `guest`.

    Such a proxy connects from loopback, wherever its clients are. Nothing in a connection
    distinguishes it from a client on this machine. So the first login from loopback logs a warning,
    and the operator has to decide.

    Args:
        from_anywhere: Whether `guest` may log in from another machine anyway; then nothing is
            logged.
    """

    def __init__(self, *, from_anywhere: bool) -> None:
        self._is_due = not from_anywhere

    def guest_logged_in(self, peer: str) -> None:
        """Log the warning at the first login from loopback.

        Args:
            peer: IP address of the client.
        """
        if self._is_due and is_loopback(peer):
            self._is_due = False
            logger.warning(
                "guest logged in from this machine peer=%s note=the clients of a proxy on this "
                "machine look the same: restrict at the proxy who may connect",
                peer,
            )


def is_loopback(peer: str) -> bool:
    """Return whether an IP address is one of this machine."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
