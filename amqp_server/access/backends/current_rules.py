"""The rights of a user whose login is renewed now and then: those of the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.access.grants import Granted, Rules


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
