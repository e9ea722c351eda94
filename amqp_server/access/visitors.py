"""Users of other back ends for whom programs, such as the management server, make requests.

A program checks a login, and gets a key for it. It names the key in the requests that it makes for
this user: a name alone could be that of one of the server's own users.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from amqp_server.access.grants import Rules

VISITORS_MAX: Final = 4096
"""Logins that are kept; above that, the one that was checked longest ago is forgotten."""
KEPT_SECONDS: Final = 600.0
"""Time after its last check for which a login is kept."""


class Visiting(Protocol):
    """A login that another back end has accepted; `amqp_server.access.backends.login.Login`."""

    @property
    def user(self) -> str:
        """Name of the user."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the user."""

    @property
    def backend(self) -> str:
        """Name of the back end."""

    @property
    def identity(self) -> Hashable:
        """The user as the back end knows it."""

    @property
    def rules(self) -> Rules:
        """Rules for what the user may do."""

    @property
    def expires_seconds(self) -> float | None:
        """Unix time at which the login ends; None: never."""


class Visitors:
    """The logins that were checked a moment ago, by key. The event loop owns it.

    Args:
        now: Returns seconds that never decrease.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._logins: dict[str, tuple[Visiting, float]] = {}
        self._keys: dict[object, str] = {}

    def __len__(self) -> int:
        """Return how many logins are kept."""
        return len(self._logins)

    def admit(self, login: Visiting, peer: str) -> str:
        """Keep a login that was checked; return its key, the same for the same user from there."""
        same = (login.backend, login.identity, peer)
        key = self._keys.pop(same, "") or secrets.token_urlsafe(16)
        self._logins.pop(key, None)
        # Both to the end: the first one was checked longest ago.
        self._keys[same] = key
        self._logins[key] = (login, self._now() + KEPT_SECONDS)
        if len(self._logins) > VISITORS_MAX:
            del self._logins[next(iter(self._logins))]
            del self._keys[next(iter(self._keys))]
        return key

    def find(self, key: str) -> Visiting | None:
        """Return the login with a key, unless it has expired or is forgotten."""
        login, until = self._logins.get(key, (None, 0.0))
        if login is None or until <= self._now():
            return None
        expires = login.expires_seconds
        return None if expires is not None and expires <= time.time() else login
