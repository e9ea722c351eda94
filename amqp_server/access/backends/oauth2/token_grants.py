"""Rights that the scopes of a token give in one virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.access.access_control import IMPERSONATOR
from amqp_server.access.grants import KEY_CHARACTERS_MAX
from amqp_server.access.permissions import Right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.access.backends.oauth2.scopes import Permission

ANSWERS_MAX = 4096
"""Answers that are remembered; when there are more, all are forgotten."""


class TokenGrants:
    """The permissions of a token in one virtual host; see `Granted`.

    Args:
        permissions: Permissions that its scopes give there.
        tags: Tags of its user.
    """

    def __init__(self, permissions: Sequence[Permission], tags: Sequence[str]) -> None:
        self.may_impersonate = IMPERSONATOR in tags
        self.may_publish_all = any(
            each.right is Right.WRITE
            and each.name.matches_all
            and each.key is not None
            and each.key.matches_all
            for each in permissions
        )
        self._permissions = permissions
        self._answers: dict[tuple[str, ...], bool] = {}

    def allows(self, right: Right, kind: str, name: str) -> bool:
        """Return whether a scope has the right for an object of this name."""
        question = (right.value, name)
        answer = self._answers.get(question)
        if answer is None:
            answer = any(
                each.right is right and each.name.matches(name) for each in self._permissions
            )
            self._remember(question, answer=answer)
        return answer

    def allows_topic(self, right: Right, exchange: str, key: str) -> bool:
        """Return whether a scope has the right for a routing key at a topic exchange.

        As in RabbitMQ, only scopes with a part for routing keys count.
        """
        question = (right.value, exchange, key)
        answer = self._answers.get(question)
        if answer is None:
            answer = any(
                each.right is right
                and each.key is not None
                and each.name.matches(exchange)
                and each.key.matches(key)
                for each in self._permissions
            )
            if len(key) <= KEY_CHARACTERS_MAX:
                self._remember(question, answer=answer)
        return answer

    def _remember(self, question: tuple[str, ...], *, answer: bool) -> None:
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.clear()
        self._answers[question] = answer
