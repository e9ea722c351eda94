"""Who has logged in, and who knows what this user may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqp_server.access.backends.backend import Identity
    from amqp_server.access.grants import Rules

INTERNAL: Final = "internal"
"""Name of the back end of the server's own users."""


@dataclass(frozen=True, slots=True)
class Login:
    """An accepted login.

    Attributes:
        user: Name of the user.
        tags: Tags of the user.
        backend: Name of the back end that has let the user in, and authorises it.
        rules: What the user may do.
        identity: The user as a back end beside the server's own knows it; None for `INTERNAL`.
    """

    user: str
    tags: tuple[str, ...]
    backend: str
    rules: Rules
    identity: Identity | None = None

    @property
    def expires_seconds(self) -> float | None:
        """Unix time at which it ends; None: never."""
        return None if self.identity is None else self.identity.expires
