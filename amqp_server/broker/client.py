"""A client's connection as the broker sees it: frames go out, without any socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from amqp_server.audit.actor import Actor
    from amqp_server.broker.rights import Rights
    from amqp_server.broker.turn import TaskQueue
    from amqp_server.protocol.errors import SoftError
    from amqp_server.protocol.large_delivery import Octets


class Client(Protocol):
    """One connected client, as its channels see it.

    Attributes:
        name: Peer and local address, for logs.
        user: Name of the authenticated user.
        actor: The user and where it is, for the audit log.
        frame_max: Negotiated frame size in octets.
        notifies_cancel: Whether the client wants `basic.cancel` when the broker ends a consumer.
        qos_reaches_consumers: Whether its `basic.qos` without `global` changes running consumers.
        rights: What the user may do in the open virtual host.
        task_queue: Task queue in which the work for this client waits.
    """

    name: str
    user: str
    actor: Actor
    frame_max: int
    notifies_cancel: bool
    qos_reaches_consumers: bool
    rights: Rights
    task_queue: TaskQueue

    @property
    def is_writable(self) -> bool:
        """Whether the client's write buffer has room for deliveries."""

    def write(self, octets: Octets) -> None:
        """Send frames, behind those that were sent before; never blocks."""

    def reply_in_order(self, send: Callable[[], None]) -> None:
        """Call `send` when the replies to all earlier methods are sent, perhaps at once."""

    def pause_reading(self, reason: object) -> None:
        """Stop reading until `resume_reading` was called for this and every other reason."""

    def resume_reading(self, reason: object) -> None:
        """Remove one reason; reading continues without any."""

    def forget_channel(self, number: int) -> None:
        """Forget a channel that the client has closed."""

    def wait_for_commit(self) -> bool:
        """Handle nothing more, and take no step of what is under way, until `on_wait_ended`.

        Returns:
            Whether it waits; if not, the caller must go on at once.
        """

    def on_wait_ended(self) -> None:
        """Go on after `wait_for_commit` or `wait_for_answer`."""

    def wait_for_answer(self, answer: asyncio.Future[None]) -> bool:
        """Handle nothing more, and take no step of what is under way, until an answer is there.

        Args:
            answer: Ends when it is known what the client may do.

        Returns:
            Whether it waits; if not, the caller must refuse what needs the answer.
        """

    def close_channel(self, number: int, error: SoftError) -> None:
        """Close a channel, unless it is closed already, and send the error to the client."""
