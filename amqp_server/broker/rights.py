"""Rights of a client in its virtual host.

Source: RabbitMQ, `rabbit_channel` (which permission each method needs, and in which order). The
texts are those of RabbitMQ 4.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from amqp_server.access.grants import Grants, UnansweredError
from amqp_server.access.permissions import FULL, Right
from amqp_server.protocol.errors import AccessRefused

if TYPE_CHECKING:
    import asyncio

    from amqp_server.access.grants import Granted
    from amqp_server.access.permissions import Permissions

ResultT = TypeVar("ResultT")
ROUNDS_MAX: Final = 12
"""Times that a method is handled until its permissions are known; the most that it needs is 4."""
_TOPIC: Final = "topic"
DEFAULT_EXCHANGE: Final = "amq.default"
"""Name by which permissions know the exchange without a name."""


class AnswerAwaited(AccessRefused):
    """403 unless the caller waits for the answer: another program is asked for the permission.

    Attributes:
        answer: Ends, without an error, when the permission is known; then ask again.
    """

    def __init__(self, explanation: str, answer: asyncio.Future[None]) -> None:
        super().__init__(explanation)
        self.answer = answer


class AnswersClient(Protocol):
    """A client that may have to wait for an answer."""

    def wait_for_answer(self, answer: asyncio.Future[None]) -> bool:
        """Handle nothing more until an answer is there; return False if that cannot wait."""


def when_answered(
    client: AnswersClient, call: Callable[[], ResultT]
) -> Generator[None, None, ResultT]:
    """Take steps until all permissions that a call needs are known; return its result.

    Args:
        client: Client that needs them; it handles nothing else in the meantime.
        call: Checks permissions before it changes anything; it is called again and again.

    Raises:
        AnswerAwaited: The client cannot wait, or `ROUNDS_MAX` calls were not enough: answers come
            so slowly that the first ones do not count any more when the last one comes.
    """
    for _ in range(ROUNDS_MAX - 1):
        try:
            return call()
        except AnswerAwaited as awaited:
            if not client.wait_for_answer(awaited.answer):
                raise
        yield
    return call()


class AccessRules(Protocol):
    """The permissions of all users."""

    @property
    def generation(self) -> int:
        """Grows when something changes."""

    def grants(self, user: str, vhost: str) -> Granted:
        """Return what a user may do in a virtual host, until `generation` changes."""


class NamedExchange(Protocol):
    """An exchange, as permissions see it."""

    @property
    def name(self) -> str:
        """Name of the exchange."""

    @property
    def type(self) -> str:
        """Type of the exchange."""


class Rights:
    """The rights of one connection, up to date at each question.

    Args:
        rules: Permissions of all users.
        user: Name of the user who logged in.
        vhost: Name of the virtual host that the connection opened.

    Attributes:
        rules: Permissions of all users; their `generation` says when to ask again.
    """

    def __init__(self, rules: AccessRules, user: str, vhost: str) -> None:
        self.rules = rules
        self._user = user
        self._vhost = vhost
        self._generation = rules.generation
        self._grants = rules.grants(user, vhost)

    @property
    def grants(self) -> Granted:
        """Permissions of the user at this moment."""
        if self._generation != self.rules.generation:
            self._generation = self.rules.generation
            self._grants = self.rules.grants(self._user, self._vhost)
        return self._grants

    def require(self, right: Right, kind: str, name: str) -> None:
        """Check that the user has a right, whether or not the object exists.

        Args:
            right: What the user wants.
            kind: `queue` or `exchange`.
            name: Name of the object.

        Raises:
            AccessRefused: The user does not have it.
            AnswerAwaited: It is not known yet.
        """
        if kind == "exchange" and not name:
            name = DEFAULT_EXCHANGE
        is_new = self._generation != self.rules.generation
        grants = self.grants if is_new else self._grants
        try:
            if grants.allows(right, kind, name):
                return
        except UnansweredError as unanswered:
            raise self._awaited(right, f"{kind} '{name}'", unanswered) from None
        raise self._refused(right, f"{kind} '{name}'")

    def require_any(self, kind: str, name: str) -> None:
        """Check that the user has one right at least, so that it may know of an object.

        Raises:
            AccessRefused: The user has none.
            AnswerAwaited: It is not known yet.
        """
        what = f"{kind} '{name}'"
        if not self._known(Right.CONFIGURE, what, lambda: self._allows_any(kind, name)):
            raise self._refused(Right.CONFIGURE, what)

    def _allows_any(self, kind: str, name: str) -> bool:
        """Return whether the user has one right at least.

        All are asked for at the same time: where no answers come, the first denial counts for a
        moment only.

        Raises:
            UnansweredError: It is not known yet.
        """
        grants, unanswered = self.grants, None
        for right in Right:
            try:
                if grants.allows(right, kind, name):
                    return True
            except UnansweredError as error:
                unanswered = error
        if unanswered is not None:
            raise unanswered
        return False

    def require_topic(self, right: Right, exchange: NamedExchange, key: str) -> None:
        """Check that the user may publish or bind with a routing key at an exchange.

        Raises:
            AccessRefused: It is a topic exchange, and the user may not.
            AnswerAwaited: It is not known yet.
        """
        what = f"topic '{key}' in exchange '{exchange.name}'"
        if not self._known(right, what, lambda: self.allows_topic(right, exchange, key)):
            raise self._refused(right, what)

    def allows_topic(self, right: Right, exchange: NamedExchange, key: str) -> bool:
        """Return whether the user may publish or bind with a routing key at an exchange.

        Raises:
            UnansweredError: It is not known yet.
        """
        return exchange.type != _TOPIC or self.grants.allows_topic(right, exchange.name, key)

    def _known(self, right: Right, what: str, ask: Callable[[], bool]) -> bool:
        try:
            return ask()
        except UnansweredError as unanswered:
            raise self._awaited(right, what, unanswered) from None

    def _awaited(self, right: Right, what: str, unanswered: UnansweredError) -> AnswerAwaited:
        text = f"{right} access to {what} in vhost '{self._vhost}' is not known yet"
        return AnswerAwaited(text, unanswered.answer)

    def _refused(self, right: Right, what: str) -> AccessRefused:
        return AccessRefused(
            f"{right} access to {what} in vhost '{self._vhost}' refused for user '{self._user}'"
        )


class _Everybody:
    """Rules that never change, and are the same for all.

    Args:
        permissions: Permissions of every user everywhere; None: nothing is allowed.
    """

    generation = 0

    def __init__(self, permissions: Permissions | None) -> None:
        self._permissions = permissions

    def grants(self, user: str, vhost: str) -> Grants:
        return Grants(user, vhost, self._permissions, {})


ALL_RIGHTS: Final = Rights(_Everybody(FULL), "", "")
"""Rights of the server itself."""
NO_RIGHTS: Final = Rights(_Everybody(None), "", "")
"""Rights of a client that has opened no virtual host."""
