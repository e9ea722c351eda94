"""The rights of a user whom a back end knows that decides about them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.access.backends.backend import Deciding, Identity
    from amqp_server.access.grants import Granted


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
