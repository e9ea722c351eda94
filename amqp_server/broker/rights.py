"""What a client may do in its virtual host.

Source: RabbitMQ, `rabbit_channel` (which permission each method needs, and in which order). The
texts are those of RabbitMQ 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.access.grants import Grants
from amqp_server.access.permissions import FULL, Right
from amqp_server.protocol.errors import AccessRefused

if TYPE_CHECKING:
    from amqp_server.access.permissions import Permissions

_TOPIC: Final = "topic"
DEFAULT_EXCHANGE: Final = "amq.default"
"""Name by which permissions know the exchange without a name."""


class AccessRules(Protocol):
    """Whoever knows the permissions of all users.

    Attributes:
        generation: Grows when something changes.
    """

    generation: int

    def grants(self, user: str, vhost: str) -> Grants:
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
    def grants(self) -> Grants:
        """What the user may do now."""
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
        """
        if kind == "exchange" and not name:
            name = DEFAULT_EXCHANGE
        if not self.grants.allows(right, name):
            raise self._refused(right, f"{kind} '{name}'")

    def require_any(self, kind: str, name: str) -> None:
        """Check that the user has one right at least, so that it may know of an object.

        Raises:
            AccessRefused: The user has none.
        """
        grants = self.grants
        if not any(grants.allows(right, name) for right in Right):
            raise self._refused(Right.CONFIGURE, f"{kind} '{name}'")

    def require_topic(self, right: Right, exchange: NamedExchange, key: str) -> None:
        """Check that the user may publish or bind with a routing key at an exchange.

        Raises:
            AccessRefused: It is a topic exchange, and the user may not.
        """
        if not self.allows_topic(right, exchange, key):
            raise self._refused(right, f"topic '{key}' in exchange '{exchange.name}'")

    def allows_topic(self, right: Right, exchange: NamedExchange, key: str) -> bool:
        """Return whether the user may publish or bind with a routing key at an exchange."""
        return exchange.type != _TOPIC or self.grants.allows_topic(right, exchange.name, key)

    def _refused(self, right: Right, what: str) -> AccessRefused:
        return AccessRefused(
            f"{right} access to {what} in vhost '{self._vhost}' refused for user '{self._user}'"
        )


class _Everybody:
    """Rules that never change, and are the same for all.

    Args:
        permissions: Permissions of everybody everywhere; None: nothing is allowed.
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
