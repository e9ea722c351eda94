"""The back ends of a server, which are tried in their order.

The back end that accepts a login also decides what this user may do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from amqp_server.access.backends.backend import Deciding, Identity, Refusal, Working
from amqp_server.access.backends.login import Login
from amqp_server.access.backends.login_rules import AskedRules, DecidedRules
from amqp_server.access.backends.questions import CLOSING_SECONDS_MAX, Questions
from amqp_server.base.socket_names import address_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.access.backends.backend import Backend
    from amqp_server.access.backends.questions import Answer
    from amqp_server.access.grants import Rules

logger = logging.getLogger("amqp_server.access.backends.chain")


class LetsIn(Protocol):
    """One back end of the chain.

    Attributes:
        name: Its name in `--auth-backends`.
    """

    name: str

    async def log_in(self, user: str, password: str | None, peer: str) -> Login | Refusal:
        """Decide about a login; `password` is None if the client has a certificate."""

    def known(self, user: str, password: str, peer: str) -> Login | Refusal | None:
        """Return what `log_in` would return, if that is known at once; else None."""

    def remember_refusal(self, user: str, password: str) -> None:
        """Remember for `known` that `log_in` refuses a user whom another back end lets in."""

    async def start(self) -> None:
        """Begin; the event loop runs."""

    async def close(self) -> None:
        """End."""

    @property
    def status(self) -> dict[str, object]:
        """Status of the back end for operators."""


class _LoginQuestion(NamedTuple):
    """Arguments of `Questions.ask`."""

    key: Hashable
    call: Callable[[], Coroutine[Any, Any, object]]
    expected: type[Identity]
    what: str
    address: str


class OutsideBackend:
    """A back end beside the server's own users: each question is bounded in time and number.

    Args:
        name: Its name in `--auth-backends`.
        backend: The back end.
        seconds_max: Time until an answer must be there.
    """

    def __init__(self, name: str, backend: Backend | Deciding, seconds_max: float) -> None:
        self.name = name
        self.questions = Questions(name, seconds_max)
        self._backend = backend

    async def start(self) -> None:
        """Begin; the event loop runs."""
        if isinstance(self._backend, Working):
            await self._backend.start()

    async def close(self) -> None:
        """Cancel all questions, then end; one that takes too long is left behind.

        Raises:
            TimeoutError: It has not ended in time.
        """
        await self.questions.close()
        if not isinstance(self._backend, Working):
            return
        closing = asyncio.ensure_future(self._backend.close())
        await asyncio.wait([closing], timeout=CLOSING_SECONDS_MAX)
        if not closing.done():
            closing.cancel()
            raise TimeoutError(f"not closed within {CLOSING_SECONDS_MAX:g} s")
        closing.result()

    async def log_in(self, user: str, password: str | None, peer: str) -> Login | Refusal:
        """Decide about a login; `password` is None if the client has a certificate."""
        if password == "":
            return Refusal("the password is empty")
        if not _is_utf8(user) or not _is_utf8(password or ""):
            return Refusal("name or password is not UTF-8")
        answer = await self.questions.answer_to(*self._question(user, password, peer))
        return self._decided(answer, peer)

    def known(self, user: str, password: str, peer: str) -> Login | Refusal | None:
        """Return what `log_in` would return, if that is known at once; else None.

        An earlier refusal is taken until there is a new answer, which the back end is asked for: so
        one that hangs does not keep back the users whom the next back end knows.
        """
        if not _is_utf8(user) or not _is_utf8(password):
            return None
        question = self._question(user, password, peer)
        found = self.questions.known(question[0])
        if found is not None:
            return self._decided(found.answer, peer)
        refused = self.questions.refused_before(question[0])
        if refused is not None:
            self.questions.ask(*question)
        return refused

    def remember_refusal(self, user: str, password: str) -> None:
        """Do nothing: the questions remember every answer."""

    def _question(self, user: str, password: str | None, peer: str) -> _LoginQuestion:
        # A digest also of the name: any client can send thousands of long ones.
        who = self.questions.digest(user, *([] if password is None else [password]))
        return _LoginQuestion(
            ("user", who, peer),
            partial(self._backend.authenticate, user, password, peer),
            Identity,
            f"login of user {user}",
            address_key(peer),
        )

    def _decided(self, answer: Answer, peer: str) -> Login | Refusal:
        if isinstance(answer, Refusal):
            return answer
        identity = cast("Identity", answer)
        if identity.expires is not None and identity.expires <= time.time():
            return Refusal("the login has expired")
        return self.login_of(identity, peer)

    def login_of(self, identity: Identity, peer: str) -> Login:
        """Return the login of a user whom the back end has let in."""
        rules: Rules
        if isinstance(self._backend, Deciding):
            rules = DecidedRules(self._backend, identity)
        else:
            rules = AskedRules(self._backend, self.questions, identity, peer)
        return Login(identity.name, identity.tags, self.name, rules, identity)

    @property
    def status(self) -> dict[str, object]:
        """Status of the back end for operators."""
        questions = self.questions
        return {
            "name": self.name,
            "asked": questions.asked_count,
            "failed": questions.failures.count,
            "last_failure": questions.failures.last_reason,
            "waiting": questions.waiting_count,
            "remembered": questions.remembered_count,
        }


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Chain:
    """The back ends of a server.

    Args:
        backends: The back ends, in the order in which they are tried.
    """

    def __init__(self, backends: Sequence[LetsIn]) -> None:
        self._backends = tuple(backends)

    async def log_in(self, user: str, password: str | None, peer: str) -> Login | Refusal:
        """Decide about a login: the first back end that accepts it counts.

        Args:
            user: Name that the client gave.
            password: Its password or token; None if the client has a certificate.
            peer: IP address of the client.
        """
        reasons: list[tuple[str, str]] = []
        for backend in self._backends:
            found = await backend.log_in(user, password, peer)
            if isinstance(found, Login):
                if password is not None:
                    for other in self._backends[: len(reasons)]:
                        other.remember_refusal(user, password)
                return found
            reasons.append((backend.name, found.reason))
        if len(reasons) == 1:
            return Refusal(reasons[0][1])
        return Refusal("; ".join(f"{name}: {reason}" for name, reason in reasons))

    def known(self, user: str, password: str, peer: str) -> Login | None:
        """Return the login that `log_in` would return, if that is known at once; else None."""
        for backend in self._backends:
            found = backend.known(user, password, peer)
            if not isinstance(found, Refusal):
                return found
        return None

    async def renew(self, login: Login, secret: str, peer: str) -> Login | Refusal:
        """Take a new secret of a user who has logged in: from the back end of the login only.

        Returns:
            The new login, of the same user.
        """
        (backend,) = (each for each in self._backends if each.name == login.backend)
        found = await backend.log_in(login.user, secret, peer)
        if isinstance(found, Login) and found.user != login.user:
            return Refusal(f"it is one of user '{found.user:.64}'")
        return found

    async def start(self) -> None:
        """Start every back end, in the order of the settings; the event loop must run."""
        for backend in self._backends:
            await backend.start()

    async def close(self) -> None:
        """End all of them; an error of one does not keep the others."""
        for backend in self._backends:
            try:
                await backend.close()
            except Exception:
                logger.exception("authentication back end not closed backend=%s", backend.name)

    @property
    def status(self) -> list[dict[str, object]]:
        """Status of all back ends for operators."""
        return [backend.status for backend in self._backends]
