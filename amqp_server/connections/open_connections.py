"""The connections of clients: the open ones, and closed ones whose peers have not closed yet.

`OpenConnections` admits new ones, and closes all of them at the stop. `Lingering` bounds the
half-closed ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from amqp_server.base.time_slice import TimeSlice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.base.socket_names import SocketNames
    from amqp_server.broker.channel import Channel
    from amqp_server.connections.octet_counters import OctetCounters
    from amqp_server.protocol.connection_machine import ConnectionMachine


class Connection(Protocol):
    """One client's connection, as the server uses it."""

    @property
    def vhost(self) -> str:
        """Name of the open virtual host; empty before it is opened and after the close."""

    @property
    def user(self) -> str:
        """Name of the user who logged in; empty before."""

    @property
    def name(self) -> str:
        """Addresses of both ends."""

    @property
    def client_name(self) -> str:
        """Name that the client gave its connection; empty if it gave none."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The open channels."""

    @property
    def channel_count(self) -> int:
        """Number of open channels."""

    @property
    def unacked_count(self) -> int:
        """Number of deliveries that the client has not answered."""

    @property
    def octets(self) -> OctetCounters:
        """Counters of what was received and sent."""

    @property
    def names(self) -> SocketNames:
        """Addresses of both ends."""

    @property
    def handshake(self) -> ConnectionMachine | None:
        """Handshake of the connection; None before the first octets, and after the end."""

    @property
    def state(self) -> str:
        """State by RabbitMQ's names: running, flow, blocking or blocked."""

    @property
    def shown_tls(self) -> dict[str, object]:
        """Description of the connection's TLS, by RabbitMQ's names; empty without TLS."""

    def count_octets(self) -> None:
        """Add the octets since the last call to those of the virtual host."""

    @property
    def held_bytes(self) -> int:
        """Bytes in memory that come from the client or go to it. Any thread may ask."""

    @property
    def unread_bytes(self) -> int:
        """Bytes that are kept for the client until it reads. Any thread may ask."""

    @property
    def taken_bytes(self) -> int:
        """Bytes that the client's socket has taken since it was opened."""

    def cut_off(self, reason: str) -> None:
        """Close the socket at once, because the client does not read."""

    def read_on(self) -> None:
        """Resume reading: every connection had a turn since the last full read."""

    def on_alarms_changed(self) -> None:
        """Note that an alarm has begun or ended."""

    def force_close(self, explanation: str) -> Iterator[None]:
        """Send the client a connection.close with this explanation; close when it has answered.

        What the client has sent before is handled first, in steps.
        """

    def abandon(self, reason: str) -> None:
        """Close the socket at once, without a message to the peer."""


class OpenConnections:
    """The connections of one server. The event loop owns it.

    Args:
        count_max: Connections that may be open at the same time; the next one is refused.

    Attributes:
        is_closing: Whether the server stops: it admits no more connections.
        is_suspended: Whether an operator lets no client connect for now.
        are_listeners_suspended: Whether an operator lets no more clients connect; those that have
            connected may stay.
    """

    def __init__(self, count_max: int) -> None:
        self.is_closing = False
        self.is_suspended = False
        self.are_listeners_suspended = False
        self._count_max = count_max
        self._open: set[Connection] = set()
        self._all_gone = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        """Iterate over the connections; they may change in the meantime. Any thread may do it."""
        return iter(tuple(self._open))

    def admit(self, connection: Connection) -> bool:
        """Register a connection; return False if there are too many or none is let in."""
        if self.is_refusing or len(self._open) >= self._count_max:
            return False
        self._open.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        """Remove a connection that is lost; ignore one that was not admitted."""
        self._open.discard(connection)
        if self.is_closing and not self._open:
            self._all_gone.set()

    def disconnect(self, vhost: str) -> Iterator[None]:
        """Close the connections of a virtual host that was deleted, in steps."""
        for connection in self:
            if connection.vhost == vhost:
                yield from connection.force_close(f"vhost '{vhost}' is deleted")
            yield

    def disconnect_user(self, user: str) -> Iterator[None]:
        """Close the connections of a user that was deleted, in steps."""
        for connection in self:
            if connection.user == user:
                yield from connection.force_close(f"user '{user}' is deleted")
            yield

    @property
    def is_refusing(self) -> bool:
        """Whether no client may connect, however few there are."""
        return self.is_closing or self.is_suspended or self.are_listeners_suspended

    def suspend(self, reason: str) -> Iterator[None]:
        """Admit no more connections until `is_suspended` is False, and close all, in steps."""
        self.is_suspended = True
        for connection in self:
            yield from connection.force_close(reason)
            yield

    def on_alarms_changed(self) -> Iterator[None]:
        """Notify every connection that an alarm has begun or ended, one in each step."""
        for connection in self:
            connection.on_alarms_changed()
            yield

    async def close(self, seconds_max: float) -> None:
        """Close all connections; return when they are gone, or after `seconds_max` seconds.

        Args:
            seconds_max: Seconds that clients have to answer connection.close; afterwards their
                sockets are closed at once.
        """
        self.is_closing = True
        if not self._open:
            self._all_gone.set()
        time_slice = TimeSlice()
        for connection in self:
            reason = "broker forced connection closure with reason 'shutdown'"
            for _ in connection.force_close(reason):
                # Its turns handle what it has sent.
                await asyncio.sleep(0)
            await time_slice.yield_if_due()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self._all_gone.wait()
        for connection in self:
            connection.abandon("shutdown")


class Lingering:
    """The half-closed connections of a server. The event loop owns it.

    Each uses a file descriptor and is read although its octets are dropped, so there is a limit.

    Args:
        count_max: Connections that may wait at the same time; one more is closed at once.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._connections: set[object] = set()

    def __len__(self) -> int:
        """Return the number of half-closed connections."""
        return len(self._connections)

    def admit(self, connection: object) -> bool:
        """Add a connection if there is room; return whether there was."""
        if len(self._connections) >= self._count_max:
            return False
        self._connections.add(connection)
        return True

    def remove(self, connection: object) -> None:
        """Remove a connection; ignore one that was not added."""
        self._connections.discard(connection)
