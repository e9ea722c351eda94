"""Decides whether a name and a password log in, and tells nothing else about them.

A password that was accepted a moment ago is accepted again without computing its slow hash: many
clients may connect again at once. A refused login always takes the time of one slow check, so that
it does not tell whether the user exists.
"""

from __future__ import annotations

import hmac
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.access.login_line import LoginLine
from amqp_server.access.passwords import SCRYPT, PasswordHash
from amqp_server.access.user import User

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REMEMBERED_SECONDS: Final = 60.0
"""Time for which an accepted password is remembered after its last use."""
REMEMBERED_MAX: Final = 4096
"""Accepted logins that are remembered; above that, the one used longest ago is forgotten."""
_NOBODY: Final = PasswordHash(SCRYPT, f"16384:8:1:{'A' * 22}==:{'A' * 43}=")
"""Hash that no password has; checking one against it takes as long as with any other."""


class Logins:
    """Checks passwords. The event loop owns it.

    Args:
        users: The users by name; the access control changes it.
        now: Returns seconds that never decrease.
    """

    def __init__(
        self, users: Mapping[str, User], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._users = users
        self._now = now
        self._line = LoginLine()
        # Until when each login is accepted, by a digest whose key is only in this process.
        self._accepted: dict[bytes, float] = {}
        # Refused logins of users whom another back end has let in, by such digests.
        self._refused: dict[bytes, None] = {}
        self._key = os.urandom(32)

    def is_known(self, name: str, password: bytes) -> bool:
        """Return whether a login can be accepted at once; otherwise `check` has to decide."""
        user = self._users.get(name)
        if user is None or not password:
            return False
        if not user.password.is_slow:
            return user.password.matches(password)
        digest = self._digest(user, password)
        until = self._accepted.pop(digest, None)
        if until is None or until < self._now():
            return False
        # It stays true as long as the user has this hash. Who comes again and again must not wait
        # once a minute behind those who try passwords.
        self._accepted[digest] = self._now() + REMEMBERED_SECONDS
        return True

    def is_refused(self, name: str, password: bytes) -> bool:
        """Return whether `remember_refusal` has been told of a login, and its user is the same."""
        return self._digest_of(name, password) in self._refused

    def remember_refusal(self, name: str, password: bytes) -> None:
        """Remember that `check` has refused a login, which another back end has accepted.

        Only those: strangers must not be able to drive out what is remembered.
        """
        digest = self._digest_of(name, password)
        self._refused.pop(digest, None)
        if len(self._refused) >= REMEMBERED_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[digest] = None

    async def check(self, name: str, password: bytes, address: str) -> bool:
        """Return whether a login is accepted; takes its turn, and the time of a slow check.

        Args:
            name: Name of the user, who may not exist.
            password: Password of the login.
            address: IP address that it comes from.

        Raises:
            FullLineError: Too many logins wait.
        """
        user = self._users.get(name)
        is_slow = user is not None and user.password.is_slow
        stored = user.password if user is not None and is_slow else _NOBODY
        accepted = await self._line.run(partial(stored.matches, password or b"\0"), address)
        if user is None or not password:
            return False
        # The password may have been changed in the meantime; tags and limits do not matter.
        now = self._users.get(name)
        is_same = now is not None and now.password == user.password
        if not is_slow:
            return is_same and user.password.matches(password)
        if accepted and is_same:
            digest = self._digest(user, password)
            self._accepted.pop(digest, None)
            if len(self._accepted) >= REMEMBERED_MAX:
                del self._accepted[next(iter(self._accepted))]
            self._accepted[digest] = self._now() + REMEMBERED_SECONDS
            return True
        return False

    async def refuse(self, address: str) -> None:
        """Take the time of a refused login.

        Raises:
            FullLineError: Too many logins wait.
        """
        await self._line.run(partial(_NOBODY.matches, b"\0"), address)

    def close(self) -> None:
        """End the thread that checks."""
        self._line.close()

    def _digest_of(self, name: str, password: bytes) -> bytes:
        """Return the digest of a login whose user may not exist."""
        return self._digest(self._users.get(name) or User(name), password)

    def _digest(self, user: User, password: bytes) -> bytes:
        # The stored hash is part of it: a changed password is not remembered any more.
        parts = (user.name.encode(), user.password.text.encode(), password)
        octets = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._key, octets, "sha256")
