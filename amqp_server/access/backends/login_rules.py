"""The rights of a user whom a back end has let in.

A back end decides about each right at once (`DecidedRules`), or has to be asked for each
(`AskedRules`). A login that is renewed now and then has the rights of the last one
(`CurrentRules`).
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.access.access_control import IMPERSONATOR
from amqp_server.access.grants import UnansweredError
from amqp_server.base.socket_names import address_key

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

    from amqp_server.access.backends.backend import Backend, Deciding, Identity
    from amqp_server.access.backends.questions import Questions
    from amqp_server.access.grants import Granted, Rules
    from amqp_server.access.permissions import Right

NEVER = float("inf")
KEY_CHARACTERS_MAX = 2048
"""Longest question that is remembered as it is; of a longer one a digest."""


class AskedRules:
    """The rights of one user from one address, as answers to questions.

    The first question about something raises `UnansweredError`; the answer counts as long as the
    questions remember it, and then `generation` grows.

    Args:
        backend: The back end.
        questions: Its questions.
        identity: The user.
        peer: IP address that the user comes from.
        now: Clock of the questions.

    Attributes:
        generation: Grows when an answer that was used does not count any more.
    """

    def __init__(
        self,
        backend: Backend,
        questions: Questions,
        identity: Identity,
        peer: str,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.generation = 0
        self.identity = identity
        self._backend = backend
        self._questions = questions
        self._peer = peer
        self._now = now
        # When the first of the answers that were used ends to count.
        self._until = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def grants(self, user: str, vhost: str) -> AskedGrants:
        """Return what the user may do in a virtual host."""
        return AskedGrants(self, vhost)

    def may_access(self, user: str, vhost: str) -> bool:
        """Return whether the user may open a virtual host.

        Raises:
            UnansweredError: It is not known yet.
        """
        call = partial(self._backend.may_open_vhost, self.identity, vhost, self._peer)
        return self.answer(("vhost", vhost, self._peer), call)

    def may_use(self, vhost: str, kind: str, name: str, right: Right) -> bool:
        """Return whether the user has a right for a queue or an exchange.

        Raises:
            UnansweredError: It is not known yet.
        """
        call = partial(self._backend.may_use, self.identity, vhost, kind, name, right.value)
        return self.answer(("resource", vhost, kind, name, right.value), call)

    def may_use_topic(self, vhost: str, exchange: str, key: str, right: Right) -> bool:
        """Return whether the user may use a routing key at a topic exchange.

        Raises:
            UnansweredError: It is not known yet.
        """
        call = partial(
            self._backend.may_use_topic, self.identity, vhost, exchange, key, right.value
        )
        return self.answer(("topic", vhost, exchange, key, right.value), call)

    def answer(
        self, question: tuple[str, ...], call: Callable[[], Coroutine[Any, Any, bool]]
    ) -> bool:
        """Return the answer to a question.

        Raises:
            UnansweredError: It is not known yet; the back end is asked.
        """
        key: Hashable = (self.identity, *question)
        if sum(map(len, question)) > KEY_CHARACTERS_MAX:
            # The keys in a message's header `CC` may be as long as a frame.
            key = (self.identity, self._questions.digest(*question))
        known = self._questions.known(key)
        if known is None:
            what = f"{' '.join(question)} of user {self.identity.name}"
            address = address_key(self._peer)
            raise UnansweredError(self._questions.ask(key, call, bool, what, address))
        self._note_use(known.until)
        return known.answer is True

    def _note_use(self, until: float) -> None:
        """Let the generation grow when the first of the used answers ends."""
        if until >= self._until:
            return
        self._until = until
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, until - self._now())
        self._timer = asyncio.get_running_loop().call_later(delay, self._outdate)

    def _outdate(self) -> None:
        self._until = NEVER
        self._timer = None
        self.generation += 1


class AskedGrants:
    """Rights of one user in one virtual host; see `Granted`.

    Args:
        rules: Rights of the user.
        vhost: Name of the virtual host.
    """

    may_publish_all = False

    def __init__(self, rules: AskedRules, vhost: str) -> None:
        self.may_impersonate = IMPERSONATOR in rules.identity.tags
        self._rules = rules
        self._vhost = vhost

    def allows(self, right: Right, kind: str, name: str) -> bool:
        """Return whether the user has a right for an object of this name.

        Raises:
            UnansweredError: It is not known yet.
        """
        return self._rules.may_use(self._vhost, kind, name, right)

    def allows_topic(self, right: Right, exchange: str, key: str) -> bool:
        """Return whether the user may use a routing key at a topic exchange.

        Raises:
            UnansweredError: It is not known yet.
        """
        return self._rules.may_use_topic(self._vhost, exchange, key, right)


class DecidedRules:
    """The rights of one user.

    Args:
        backend: The back end.
        identity: The user.

    Attributes:
        generation: 0: what an identity may do never changes.
    """

    def __init__(self, backend: Deciding, identity: Identity) -> None:
        self.generation = 0
        self._backend = backend
        self._identity = identity
        self._granted: dict[str, Granted] = {}

    def grants(self, user: str, vhost: str) -> Granted:
        """Return what the user may do in a virtual host."""
        found = self._granted.get(vhost)
        if found is None:
            found = self._granted[vhost] = self._backend.grants(self._identity, vhost)
        return found

    def may_access(self, user: str, vhost: str) -> bool:
        """Return whether the user may open a virtual host."""
        return self._backend.may_access(self._identity, vhost)


class CurrentRules:
    """The rights that count now.

    Args:
        rules: Those of the first login.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._earlier = 0

    @property
    def generation(self) -> int:
        """Grows when what was answered before does not count any more."""
        return self._earlier + self._rules.generation

    def replace(self, rules: Rules) -> None:
        """Let the rights of a new login count."""
        self._earlier = self.generation + 1 - rules.generation
        self._rules = rules

    def grants(self, user: str, vhost: str) -> Granted:
        """Return what the user may do in a virtual host, until `generation` changes."""
        return self._rules.grants(user, vhost)

    def may_access(self, user: str, vhost: str) -> bool:
        """Return whether the user may open a virtual host.

        Raises:
            UnansweredError: It is not known yet.
        """
        return self._rules.may_access(user, vhost)
