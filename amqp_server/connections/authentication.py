"""Decides which users may log in from which addresses, and logs refusals."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from amqp_server.access.backends.backend import Refusal
from amqp_server.access.backends.chain import Chain
from amqp_server.access.backends.internal import InternalBackend
from amqp_server.access.backends.login import INTERNAL
from amqp_server.access.backends.login_rules import CurrentRules
from amqp_server.access.grants import UnansweredError
from amqp_server.access.login_line import FullLineError
from amqp_server.base.socket_names import address_key, is_loopback
from amqp_server.broker.rights import AnswerAwaited
from amqp_server.protocol.errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Container, Mapping, Sequence

    from amqp_server.access.access_control import AccessControl
    from amqp_server.access.backends.chain import LetsIn
    from amqp_server.access.backends.login import Login
    from amqp_server.access.grants import Rules as LoginRules
    from amqp_server.access.logins import Logins
    from amqp_server.base.config import ServerConfig
    from amqp_server.connections.connection_limits import ConnectionLimits

logger = logging.getLogger("amqp_server.authentication")

ONLY_FROM_HERE: Final = "only from this machine"
REFUSED_RENEWAL: Final = "New secret was refused by one of the backends"
FAILED_RENEWAL: Final = "Secret update failed"
"""Texts of RabbitMQ for a new secret."""
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

    Attributes:
        chain: Back ends that let users in; the server's own users alone until `use` is called.
    """

    def __init__(
        self,
        config: ServerConfig,
        access: AccessControl,
        logins: Logins,
        vhosts: Container[str],
        limits: ConnectionLimits,
    ) -> None:
        self.internal = InternalBackend(access, logins)
        self.chain = Chain([self.internal])
        self.is_internal_first = True
        self.has_others = False
        self.logins = logins
        self.vhosts = vhosts
        self.limits = limits
        self.guest_from_anywhere = config.guest_from_anywhere
        self.warning = ProxyWarning(from_anywhere=config.guest_from_anywhere)

    def use(self, names: Sequence[str], outside: Mapping[str, LetsIn]) -> None:
        """Use other back ends too.

        Args:
            names: Names of the back ends, in the order in which they are tried.
            outside: Those that are not the server's own users, by name.
        """
        self.chain = Chain([outside.get(name, self.internal) for name in names])
        self.is_internal_first = names[0] == INTERNAL
        self.has_others = bool(outside)


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
        self._login: Login | None = None
        # Of a login that can be renewed.
        self._current: CurrentRules | None = None

    @property
    def user(self) -> str:
        """User who has logged in; empty before."""
        return "" if self._login is None else self._login.user

    @property
    def accepted(self) -> Login:
        """The login, which was accepted."""
        assert self._login is not None, "nothing is asked of a peer that has not logged in"
        return self._login

    @property
    def rules(self) -> LoginRules:
        """Rules for what the logged-in user may do."""
        return self.accepted.rules if self._current is None else self._current

    @property
    def expires_seconds(self) -> float | None:
        """Unix time at which the login ends; None: never."""
        return self.accepted.expires_seconds

    def login(self, user: str, password: bytes) -> bool | Awaitable[bool]:
        """Return whether the peer may log in with this name and password from its address.

        A refusal takes time, and the peer does not learn the reason: its error refers to the log.
        """
        rules = self._rules
        if not rules.has_others and self._is_remote_guest(user):
            return self._refuse(user, ONLY_FROM_HERE)
        if rules.is_internal_first and not self._is_remote_guest(user):
            found = rules.internal.quick_login(user, password)
            if found is not None:
                self._accept(found)
                return True
        return self._ask(user, password.decode("utf-8", "surrogateescape"))

    def known_login(self, user: str, password: bytes) -> bool:
        """Log in, if it is known at once that the peer may; False: `login` has to decide."""
        if self._is_remote_guest(user):
            return False
        secret = password.decode("utf-8", "surrogateescape")
        found = self._rules.chain.known(user, secret, self._peer)
        if found is None or self._is_remote_guest(found.user):
            return False
        self._accept(found)
        return True

    def login_by_certificate(self, user: str) -> bool | Awaitable[bool]:
        """Return whether the peer may log in as the user whom its certificate names.

        Args:
            user: Name in a verified certificate; empty if it has none there.
        """
        if not user:
            self._log(user, "no certificate, or no name in it where ssl-cert-login-from looks")
            return False
        return self._ask(user, None)

    async def _ask(self, user: str, password: str | None) -> bool:
        found = await self._rules.chain.log_in(user, password, self._peer)
        if isinstance(found, Refusal):
            self._log(user, found.reason)
            return False
        if self._is_remote_guest(found.user):
            self._log(user, ONLY_FROM_HERE)
            return False
        self._accept(found)
        return True

    def _is_remote_guest(self, user: str) -> bool:
        return user == GUEST and not (self._rules.guest_from_anywhere or is_loopback(self._peer))

    async def _refuse(self, user: str, reason: str) -> bool:
        self._log(user, reason)
        with suppress(FullLineError):
            await self._rules.logins.refuse(address_key(self._peer))
        return False

    def _accept(self, login: Login) -> None:
        self._login = login
        if login.expires_seconds is not None:
            self._current = CurrentRules(login.rules)
        if login.user == GUEST:
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
        try:
            may_open = self.rules.may_access(user, name)
        except UnansweredError as unanswered:
            text = f"access to vhost '{name}' of user '{user}' is not known yet"
            raise AnswerAwaited(text, unanswered.answer) from None
        if not may_open:
            raise _vhost_refused(user, name)

    def renew(self, secret: bytes, vhost: str, reason: str) -> Awaitable[str] | None:
        """Take a new secret of the user who has logged in.

        Args:
            secret: The new password or token.
            vhost: Virtual host that is open.
            reason: Reason that the client gives.

        Returns:
            Why it is refused, for the client, empty if it is not; None if it has no effect, because
            the login does not expire.
        """
        if self.expires_seconds is not None:
            return self._renew(secret.decode("utf-8", "surrogateescape"), vhost, reason)
        logger.info(
            "secret renewed peer=%s user=%s reason=%r note=passwords are checked at the login only",
            self._peer,
            self.user,
            reason,
        )
        return None

    async def _renew(self, secret: str, vhost: str, reason: str) -> str:
        before = self.accepted
        found = await self._rules.chain.renew(before, secret, self._peer)
        if isinstance(found, Refusal):
            logger.warning(
                "secret refused peer=%s user=%s reason=%s", self._peer, self.user, found.reason
            )
            return REFUSED_RENEWAL
        while True:
            try:
                may_open = found.rules.may_access(found.user, vhost)
                break
            except UnansweredError as unanswered:
                await asyncio.wait([unanswered.answer])
        if not may_open:
            return str(_vhost_refused(found.user, vhost).args[0])
        self._login = found
        if self._current is not None:
            self._current.replace(found.rules)
        logger.info(
            "secret renewed peer=%s user=%s reason=%r expires=%s",
            self._peer,
            self.user,
            reason,
            found.expires_seconds,
        )
        return ""


def _vhost_refused(user: str, vhost: str) -> NotAllowed:
    return NotAllowed(f"access to vhost '{vhost}' refused for user '{user}'")


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
