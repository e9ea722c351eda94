"""A client inside the server, for which commands begin the operations of AMQP clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.audit.actor import acting
from amqp_server.broker.channel import Channel
from amqp_server.broker.rights import ALL_RIGHTS
from amqp_server.broker.turn import TaskQueue

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.rights import Rights
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.errors import SoftError
    from amqp_server.protocol.large_delivery import Octets


class InnerClient:
    """A client without a connection: its user awaits what operations return.

    Args:
        name: Name of the command, for logs.
        user: User for whom the command runs; empty: it runs for no user of the server.
        rights: What it may do in the virtual host of its channel.
    """

    def __init__(self, name: str, user: str = "", rights: Rights = ALL_RIGHTS) -> None:
        self.name = name
        self.user = user
        self.actor = acting.get()
        self.frame_max = 131_072
        self.notifies_cancel = False
        self.qos_reaches_consumers = False
        self.rights = rights
        self.task_queue = TaskQueue()

    @property
    def is_writable(self) -> bool:
        """False: nothing is delivered to this client."""
        return False

    def write(self, octets: Octets) -> None:
        """Drop frames: there is no connection."""

    def reply_in_order(self, send: Callable[[], None]) -> None:
        """Drop a reply: the caller gets the result of the operation."""

    def pause_reading(self, reason: object) -> None:
        """Do nothing: there is no connection to read."""

    def resume_reading(self, reason: object) -> None:
        """Do nothing: there is no connection to read."""

    def forget_channel(self, number: int) -> None:
        """Do nothing: the caller keeps its channel."""

    def wait_for_commit(self) -> bool:
        """Return False: commands take all steps at once."""
        return False

    def on_wait_ended(self) -> None:
        """Do nothing: it never waits."""

    def wait_for_answer(self, answer: asyncio.Future[None]) -> bool:
        """Return False: the caller of the command waits, and runs it again."""
        return False

    def close_channel(self, number: int, error: SoftError) -> None:
        """Do nothing: the operation raises the error."""


def inner_channel(name: str, vhost: VirtualHost, broker: Broker) -> Channel:
    """Return a channel for operations, with a client of its own.

    Args:
        name: Name of the command, for logs.
        vhost: Virtual host of the channel.
        broker: Broker of the server.
    """
    return Channel(1, InnerClient(name), vhost, broker)
