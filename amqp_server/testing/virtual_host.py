"""One virtual host of a broker in a test: a broker of its own, as far as clients can see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from amqp_server.testing.urls import amqp_url

if TYPE_CHECKING:
    from types import TracebackType


class VhostOwner(Protocol):
    """The broker, as its virtual hosts use it."""

    @property
    def host(self) -> str:
        """Address at which the broker listens."""

    @property
    def port(self) -> int:
        """TCP port at which the broker listens."""

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it."""

    def start(self) -> object:
        """Start the broker."""

    def stop(self) -> None:
        """Stop the broker."""

    def restart(self) -> None:
        """Restart the broker."""


class VirtualHost:
    """A virtual host with exchanges and queues of its own; made by `Broker.new_vhost`.

    As a context manager it is deleted at the end.

    Args:
        owner: Broker that has it.
        name: Name of the virtual host, which exists.

    Attributes:
        vhost: Its name.
    """

    def __init__(self, owner: VhostOwner, name: str) -> None:
        self._owner = owner
        self.vhost = name

    @property
    def host(self) -> str:
        """Address at which the broker listens."""
        return self._owner.host

    @property
    def port(self) -> int:
        """TCP port at which the broker listens."""
        return self._owner.port

    @property
    def url(self) -> str:
        """URL of this virtual host, with the user `guest`."""
        return amqp_url(self.host, self.port, self.vhost)

    def stop(self) -> None:
        """Stop the whole broker; see `Broker.stop`."""
        self._owner.stop()

    def start(self) -> None:
        """Start the whole broker again; see `Broker.start`."""
        self._owner.start()

    def restart(self) -> None:
        """Restart the whole broker; see `Broker.restart`."""
        self._owner.restart()

    def delete(self) -> None:
        """Delete the virtual host with everything in it, and close its connections.

        A second call does nothing.
        """
        self._owner.delete_vhost(self.vhost)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.delete()
