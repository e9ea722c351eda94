"""The server's own users as a back end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.access.backends.backend import Refusal
from amqp_server.access.backends.login import INTERNAL, Login
from amqp_server.access.login_line import FullLineError
from amqp_server.base.socket_names import address_key

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl
    from amqp_server.access.logins import Logins

_REFUSED: Final = "unknown user or wrong password"


class InternalBackend:
    """The server's own users.

    Args:
        access: Users and permissions.
        logins: Checks passwords.
    """

    name = INTERNAL

    def __init__(self, access: AccessControl, logins: Logins) -> None:
        self._access = access
        self._logins = logins

    def login_of(self, user: str) -> Login:
        """Return the login of a user whose password is right."""
        found = self._access.users.get(user)
        return Login(user, () if found is None else found.tags, INTERNAL, self._access)

    def quick_login(self, user: str, password: bytes) -> Login | None:
        """Return a login that can be accepted at once; None: `log_in` has to decide."""
        return self.login_of(user) if self._logins.is_known(user, password) else None

    async def log_in(self, user: str, password: str | None, peer: str) -> Login | Refusal:
        """Decide about a login; it takes the time of a slow check.

        Args:
            user: Name that the client gave.
            password: Its password; None if the client has a certificate with this name.
            peer: IP address of the client.
        """
        if password is None:
            if user in self._access.users:
                return self.login_of(user)
            return Refusal("its certificate names no user of this server")
        octets = password.encode("utf-8", "surrogateescape")
        found = self.quick_login(user, octets)
        if found is not None:
            return found
        try:
            if await self._logins.check(user, octets, address_key(peer)):
                return self.login_of(user)
        except FullLineError:
            return Refusal("too many logins wait for their check")
        return Refusal(_REFUSED)

    def known(self, user: str, password: str, peer: str) -> Login | Refusal | None:
        """Return what `log_in` would return, if that is known at once; else None."""
        del peer
        octets = password.encode("utf-8", "surrogateescape")
        if self._logins.is_refused(user, octets):
            return Refusal(_REFUSED)
        return self.quick_login(user, octets)

    def remember_refusal(self, user: str, password: str) -> None:
        """Remember that `log_in` has refused a user, whom another back end has let in."""
        self._logins.remember_refusal(user, password.encode("utf-8", "surrogateescape"))

    async def start(self) -> None:
        """Do nothing: the server starts its users."""

    async def close(self) -> None:
        """Do nothing: the server closes what checks passwords."""

    @property
    def status(self) -> dict[str, object]:
        """Status of the back end for operators."""
        return {"name": INTERNAL}
