"""Rights of one user in one virtual host, valid until a permission changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.access.patterns import InvalidPatternError, compiled
from amqp_server.access.permissions import Right

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from amqp_server.access.permissions import Permissions, TopicPermissions

ANSWERS_MAX: Final = 4096
"""Answers that are remembered; when there are more, all are forgotten."""

KEY_CHARACTERS_MAX: Final = 255
"""Longest routing key whose answer is remembered: those in a header `CC` may be much longer."""


class UnansweredError(Exception):
    """It is not known yet whether something is allowed: another program is being asked.

    Attributes:
        answer: Ends, without an error, when the question can be asked again.
    """

    def __init__(self, answer: asyncio.Future[None]) -> None:
        super().__init__("not known yet")
        self.answer = answer


class Granted(Protocol):
    """Rights of one user in one virtual host.

    Attributes:
        may_impersonate: Whether the user may publish with the `user-id` of another one.
        may_publish_all: Whether no publish has to be checked.
    """

    may_impersonate: bool
    may_publish_all: bool

    def allows(self, right: Right, kind: str, name: str) -> bool:
        """Return whether the user has a right for an object of this name.

        Args:
            right: Right that the user needs.
            kind: `queue` or `exchange`.
            name: Name of the object.

        Raises:
            UnansweredError: It is not known yet.
        """

    def allows_topic(self, right: Right, exchange: str, key: str) -> bool:
        """Return whether the user may publish or bind with a routing key at a topic exchange.

        Raises:
            UnansweredError: It is not known yet.
        """


class Rules(Protocol):
    """Knows the permissions of users."""

    @property
    def generation(self) -> int:
        """Grows when what was answered before does not count any more."""

    def grants(self, user: str, vhost: str) -> Granted:
        """Return what a user may do in a virtual host, until `generation` changes."""

    def may_access(self, user: str, vhost: str) -> bool:
        """Return whether a user may open a virtual host.

        Raises:
            UnansweredError: It is not known yet.
        """


class Grants:
    """The compiled permissions of one user; its connections share it.

    Args:
        user: Name of the user.
        vhost: Name of the virtual host.
        permissions: The user's permissions there; None: no access.
        topics: The user's permissions for routing keys there, by exchange.
        may_impersonate: Whether the user may publish with the `user-id` of another one.
        has_all_topics: Whether `topics` is all that there is; otherwise a topic exchange that is
            not in it allows nothing.

    Attributes:
        may_publish_all: Whether no publish has to be checked.
    """

    def __init__(
        self,
        user: str,
        vhost: str,
        permissions: Permissions | None,
        topics: Mapping[str, TopicPermissions],
        *,
        may_impersonate: bool = False,
        has_all_topics: bool = True,
    ) -> None:
        self._has_all_topics = has_all_topics
        self.may_impersonate = may_impersonate
        self.user = user
        self.vhost = vhost
        self._permissions = permissions
        self._topics = topics
        self._answers: dict[tuple[Right, str], bool] = {}
        self._topic_answers: dict[tuple[Right, str, str], bool] = {}
        self.may_publish_all = (
            not topics
            and has_all_topics
            and permissions is not None
            and compiled(permissions.write).matches_all
        )

    def allows(self, right: Right, kind: str, name: str) -> bool:
        """Return whether the user has a right for a queue or an exchange of this name."""
        answer = self._answers.get((right, name))
        if answer is None:
            text = None if self._permissions is None else getattr(self._permissions, right)
            answer = text is not None and _found(text, name)
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[right, name] = answer
        return answer

    def allows_topic(self, right: Right, exchange: str, key: str) -> bool:
        """Return whether the user may publish or bind with a routing key at a topic exchange.

        A user without a permission for this exchange may use every key.

        Args:
            right: `Right.WRITE` or `Right.READ`.
            exchange: Name of the exchange.
            key: Routing key.
        """
        topic = self._topics.get(exchange)
        if topic is None:
            return self._has_all_topics
        answer = self._topic_answers.get((right, exchange, key))
        if answer is None:
            answer = _found(self._with_names(getattr(topic, right)), key)
            if len(self._topic_answers) >= ANSWERS_MAX:
                self._topic_answers.clear()
            if len(key) <= KEY_CHARACTERS_MAX:
                self._topic_answers[right, exchange, key] = answer
        return answer

    def _with_names(self, text: str) -> str:
        """Replace `{username}` and `{vhost}`; `{client_id}` is known of MQTT clients only."""
        for name, value in (("{username}", self.user), ("{vhost}", self.vhost)):
            text = text.replace(name, re.escape(value))
        return text


def _found(text: str, name: str) -> bool:
    try:
        return compiled(text).search(name)
    except InvalidPatternError:
        # It was checked when it was set: it is too large now that the names are in it.
        return False
