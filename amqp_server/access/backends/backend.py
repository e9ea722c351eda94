"""Interface of authentication back ends: of your own, and of those that the broker brings.

A back end of one's own is a class, or a function without arguments that returns an object, under
the entry point group `amqp_server.auth_backends`. docs/authentication-backends.md has an example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from amqp_server.access.grants import Granted

ENTRY_POINTS: Final = "amqp_server.auth_backends"
"""Group of the entry points of back ends of one's own."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user whom a back end has let in.

    Attributes:
        name: Name of the user, 1 to 255 octets; may differ from the name in the login.
        tags: Tags, such as `administrator`.
        expires: Unix time in seconds at which the login ends; None: never. A connection is closed
            then, unless its client has sent a new secret.
        data: Anything that the back end wants back with each question about the user.
    """

    name: str
    tags: tuple[str, ...] = ()
    expires: float | None = None
    data: Hashable = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A login that a back end refuses.

    Attributes:
        reason: Why, for the log; clients do not get it. Never a password or a token.
    """

    reason: str


class Backend(Protocol):
    """Knows users and what they may do.

    The server calls it on its event loop, so nothing in it may block: await, or use a thread. A
    call that takes longer than `--auth-timeout` is cancelled. That, and everything that it raises,
    denies. Answers are remembered for some seconds.
    """

    async def authenticate(self, user: str, password: str | None, peer: str) -> Identity | Refusal:
        """Decide about a login.

        Args:
            user: Name that the client gave.
            password: Password or token, never empty; None: the client has a certificate with this
                name, which was verified.
            peer: IP address of the client.
        """

    async def may_open_vhost(self, identity: Identity, vhost: str, peer: str) -> bool:
        """Return whether the user may open a virtual host from an address."""

    async def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, right: str
    ) -> bool:
        """Return whether the user has a right for a queue or an exchange, which may not exist.

        Args:
            identity: The user.
            vhost: Name of the virtual host.
            kind: `queue` or `exchange`.
            name: Name; the exchange without a name is `amq.default`.
            right: `configure`, `write` or `read`.
        """

    async def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, right: str
    ) -> bool:
        """Return whether the user may use a routing key at a topic exchange.

        It is asked beside `may_use`.

        Args:
            identity: The user.
            vhost: Name of the virtual host.
            exchange: Name of the exchange.
            routing_key: Key of a message or of a binding.
            right: `write` to publish, `read` to bind.
        """


@runtime_checkable
class Deciding(Protocol):
    """A back end that decides about permissions at once, without asking a server."""

    async def authenticate(self, user: str, password: str | None, peer: str) -> Identity | Refusal:
        """Decide about a login; see `Backend`."""

    def grants(self, identity: Identity, vhost: str) -> Granted:
        """Return what a user may do in a virtual host."""

    def may_access(self, identity: Identity, vhost: str) -> bool:
        """Return whether a user may open a virtual host."""


@runtime_checkable
class Working(Protocol):
    """A back end that has something to begin and to end, such as connections."""

    async def start(self) -> None:
        """Begin; the event loop runs."""

    async def close(self) -> None:
        """End."""
