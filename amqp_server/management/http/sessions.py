"""Sessions of the page: a cookie instead of a password in each request.

A session keeps the password, in memory only: every request is checked as if it had brought it, so a
new password, a changed tag or a deleted user counts at once.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

SESSIONS_MAX: Final = 1000
"""Sessions that are kept; one more ends one of the user who has the most."""
SESSIONS_PER_USER_MAX: Final = 100
"""Sessions of one user; one more ends the one of this user that has been idle longest."""
IDLE_SECONDS_MAX: Final = 8 * 3600.0
"""Seconds without a request after which a session ends."""
_TOKEN_BYTES: Final = 32


@dataclass(slots=True)
class Session:
    """A login of the page.

    Attributes:
        token: Value of the cookie.
        csrf_token: What a request that changes something has to bring in a header.
        user: Name of the user.
        name: Name that the login gave; empty for some tokens.
        password: Password or token of the login.
        used_seconds: Time of the last request, on the clock of the sessions.
    """

    token: str
    csrf_token: str
    user: str
    name: str
    password: str = field(repr=False)
    used_seconds: float = 0.0

    def has_csrf_token(self, token: str) -> bool:
        """Return whether a token is the one of this session."""
        # Octets of a header that are no UTF-8 come as surrogates.
        octets = token.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(octets, self.csrf_token.encode())


class Sessions:
    """The sessions of one management server.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Both in the order of their last use.
        self._sessions: dict[str, Session] = {}
        self._of_users: dict[str, dict[str, None]] = {}

    def begin(self, user: str, name: str, password: str) -> Session:
        """Begin a session of a user who has logged in.

        Args:
            user: Name of the user, whose sessions are bounded.
            name: Name that the login gave; empty for some tokens.
            password: Password or token of the login.
        """
        if len(self._of_users.get(user, ())) >= SESSIONS_PER_USER_MAX:
            self._take(next(iter(self._of_users[user])))
        while len(self._sessions) >= SESSIONS_MAX:
            self._take(self._idle_of_the_busiest())
        token, csrf_token = (secrets.token_urlsafe(_TOKEN_BYTES) for _ in range(2))
        session = Session(token, csrf_token, user, name, password, self._clock())
        self._add(session)
        return session

    def find(self, token: str) -> Session | None:
        """Return the session of a cookie, used now; None if there is none or it has ended."""
        session = self._take(token)
        if session is None or self._clock() - session.used_seconds > IDLE_SECONDS_MAX:
            return None
        session.used_seconds = self._clock()
        self._add(session)
        return session

    def end(self, token: str) -> None:
        """End a session, if there is one."""
        self._take(token)

    def _idle_of_the_busiest(self) -> str:
        """Return the session that is idle longest, of those whose users have the most sessions."""
        most = max(map(len, self._of_users.values()))
        return next(
            token
            for token, session in self._sessions.items()
            if len(self._of_users[session.user]) == most
        )

    def _add(self, session: Session) -> None:
        self._sessions[session.token] = session
        self._of_users.setdefault(session.user, {})[session.token] = None

    def _take(self, token: str) -> Session | None:
        session = self._sessions.pop(token, None)
        if session is None:
            return None
        own = self._of_users[session.user]
        del own[token]
        if not own:
            del self._of_users[session.user]
        return session
