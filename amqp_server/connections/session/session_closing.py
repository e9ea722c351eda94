"""Ends a session: chooses the close to send, and releases everything before it.

Soft errors close a channel, hard errors close the connection, as AMQP requires. A client gets
the close only after everything that it held is released: a quick reconnect must find the messages,
and the names of its queues free.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.client import Client
from amqp_server.broker.job import Job
from amqp_server.connections.session.session_machine import (
    COUNTED,
    RELEASING,
    Stage,
    StageEvent,
)
from amqp_server.protocol.close_methods import channel_close, connection_close
from amqp_server.protocol.connection_machine import ConnectionState
from amqp_server.protocol.methods import ConnectionClose, method_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.connections.client_socket import ClientSocket
    from amqp_server.connections.parked_publishes import ParkedPublishes
    from amqp_server.connections.server_context import ServerContext
    from amqp_server.connections.session.session_channels import SessionChannels
    from amqp_server.connections.session.session_input import SessionInput
    from amqp_server.connections.session.session_machine import SessionMachine
    from amqp_server.protocol.connection_machine import ConnectionMachine
    from amqp_server.protocol.errors import AmqpError, SoftError
    from amqp_server.protocol.methods import Method

logger = logging.getLogger("amqp_server.client_session")

REPLY_SUCCESS = 200


class EndingSession(Client, Protocol):
    """The session that ends, or one of whose channels does.

    Attributes:
        parked: Its parked publishes.
    """

    parked: ParkedPublishes

    @property
    def virtual_host(self) -> VirtualHost | None:
        """Virtual host that was opened; None before."""

    def hand_over_close(self) -> Iterator[None] | None:
        """Return the steps that are left of the close of a channel, if it is under way.

        The session takes none of them any more.
        """

    def resume_handling(self) -> None:
        """Handle what waits in the next turn."""


class SessionClosing:
    """Closes the channels of one session, and the session itself.

    The session passes itself to each method: a reference back would make both garbage in a cycle.

    Args:
        server: Server whose broker the client uses.
        connection: Connection to close.
        machine: State of channel 0.
        states: Stage of the session.
        channels: Its channels.
        waiting: Its input that is not handled yet.

    Attributes:
        reason: Why the session ends, by the side that closed it first; empty until one has.
    """

    def __init__(
        self,
        server: ServerContext,
        connection: ClientSocket,
        machine: ConnectionMachine,
        states: SessionMachine,
        channels: SessionChannels,
        waiting: SessionInput,
    ) -> None:
        self.reason = ""
        self._server = server
        self._connection = connection
        self._machine = machine
        self._states = states
        self._channels = channels
        self._waiting = waiting
        self._after_release: list[Callable[[], None]] = []

    # A channel

    def close_channel(self, session: EndingSession, number: int, error: SoftError) -> None:
        """Close a channel with an error; ignore its frames until close-ok."""
        channel = self._channels.take(number, session.user)
        if channel is None:
            return
        logger.warning("channel error peer=%s channel=%d error=%s", session.name, number, error)
        session.parked.forget(session, number)
        self._channels.machines[number].close()
        channel.end()
        self._channels.closings.append(_release_channel(session, channel, error))
        session.resume_handling()

    # The connection

    def fail(self, session: EndingSession, error: AmqpError) -> None:
        """Close the connection with an error; without a reply if the peer is not logged in."""
        state = self._machine.state
        if state in (ConnectionState.CLOSING, ConnectionState.CLOSED):
            return
        logger.warning(
            "connection error peer=%s user=%s error=%s", session.name, session.user, error
        )
        understands_close = state not in (
            ConnectionState.AWAITING_START_OK,
            ConnectionState.CHECKING_LOGIN,
        ) or self._machine.capability("authentication_failure_close")
        if not understands_close:
            self.release_everything(session)
            self._waiting.drop()
            self._machine.close()
            self._connection.close_in_silence()
            return
        self.send_close(session, error)

    def send_close(self, session: EndingSession, error: AmqpError) -> None:
        """Release everything; then send connection.close, and wait for its answer."""
        self.reason = self.reason or str(error)
        # Waiting events stay: the client's own close may be among them.
        self._machine.close()
        self.release_everything(session, partial(self._finish_close, connection_close(error)))

    def _finish_close(self, close: ConnectionClose) -> None:
        self._connection.write(method_frame(0, close))
        self._connection.close_later()

    def stop(self) -> None:
        """Close the socket of a session that is not open, without a reason that its client reads.

        A session that ends already goes on to do so: its client gets the close when everything is
        released.
        """
        stage = self._states.stage
        if stage in RELEASING:
            return
        if stage is Stage.HANDSHAKE:
            # A decision that is still to come must not open it.
            self._waiting.drop()
            self._machine.close()
        self._connection.close()

    def on_closed(self, session: EndingSession, method: Method, answer: Method | None) -> None:
        """Release everything, then close the socket: the client has closed, or confirmed our close.

        Args:
            session: The session.
            method: Method that the client has sent.
            answer: Its answer; None if our own close came first.
        """
        if isinstance(method, ConnectionClose):
            self.reason = self.reason or _client_reason(method)
        self._waiting.drop()
        self.release_everything(session, partial(self._close_with, answer))

    def _close_with(self, answer: Method | None) -> None:
        if answer is not None:
            self._connection.write(method_frame(0, answer))
        # After our own close the client's close-ok was the last.
        self._connection.close(peer_is_first=answer is not None)

    def release_everything(
        self, session: EndingSession, then: Callable[[], None] | None = None
    ) -> None:
        """End all channels now; release in steps what they hold, and the exclusive queues.

        Args:
            session: The session.
            then: Called when that is done. The client gets the close only then: a quick
                reconnect must find the messages, and the names of its queues free.
        """
        if then is not None:
            self._after_release.append(then)
        before = self._states.advance(StageEvent.RELEASE)
        if before in RELEASING:
            # Our own close may be followed by the client's, and by the loss of the connection.
            return
        broker, turn = self._server.broker, self._server.broker.turn
        broker.orphan_queues_of(session)
        channels = self._channels.take_all(session.user)
        if before in COUNTED:
            self._server.connection_limits.note_closed(session.user, session.virtual_host)
        for channel in channels:
            channel.end()
        self._channels.close_machines()
        endings = self._channels.take_closings()
        if (under_way := session.hand_over_close()) is not None:
            endings.insert(0, under_way)
        endings += [channel.release() for channel in channels]
        steps = self._release(session, endings)
        Job(turn, turn.endings, steps, f"end of client {session.name!r}").start()

    def _release(self, session: EndingSession, endings: list[Iterator[None]]) -> Iterator[None]:
        for steps in endings:
            try:
                yield from steps
            except Exception:
                # The other channels hold messages too.
                logger.exception("channel not released peer=%s", session.name)
        try:
            yield from self._server.broker.delete_queues_of(session)
        finally:
            self._states.advance(StageEvent.RELEASED)
            while self._after_release:
                self._after_release.pop(0)()


def _release_channel(client: Client, channel: Channel, error: SoftError) -> Iterator[None]:
    """Release a channel; then send the client the error.

    What the client has sent is handled after that: its own close of the channel, for example.
    """
    yield from channel.release()
    client.write(method_frame(channel.number, channel_close(error)))


def _client_reason(close: ConnectionClose) -> str:
    """Return why a client has closed its connection."""
    if close.reply_code == REPLY_SUCCESS:
        return "closed by the client"
    return f"closed by the client: {close.reply_code} {close.reply_text}"
