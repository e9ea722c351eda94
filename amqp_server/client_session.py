"""One client's session: from frames to channels, and from errors to closes.

Events are handled in the order of arrival. Where a handler must wait for the disk, nothing
further of this client is handled until it is done, and its socket is not read meanwhile.
Soft errors end a channel, hard ones the connection, as the specification asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from amqp_server.broker.channel import Channel
from amqp_server.broker.handlers import HANDLERS
from amqp_server.frame_errors import failed_method, undecodable, unexpected_frame
from amqp_server.protocol import framing
from amqp_server.protocol.connection_machine import ConnectionMachine, ConnectionState
from amqp_server.protocol.errors import (
    AccessRefused,
    AmqpError,
    ChannelError,
    CommandInvalid,
    ConnectionForced,
    FieldSyntaxError,
    FrameError,
    HardError,
    InternalError,
    NotAllowed,
    NotImplementedAmqp,
    SoftError,
    UnexpectedFrame,
)
from amqp_server.protocol.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    Method,
    decode_method,
    method_frame,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.client_connection import ClientConnection
    from amqp_server.server import Server

logger = logging.getLogger(__name__)

_PUBLISH_ID = b"\x00\x3c\x00\x28"
_CHANNEL_CLOSE_ID = b"\x00\x14\x00\x28"
_CHANNEL_CLOSE_OK_ID = b"\x00\x14\x00\x29"


class ClientSession:
    """What one greeted client has open; implements the broker's `Client`.

    Args:
        server: Whose broker is used.
        connection: The socket below.
        machine: A handshake that is about to send its greeting.
    """

    def __init__(
        self, server: Server, connection: ClientConnection, machine: ConnectionMachine
    ) -> None:
        """Greet the client."""
        self.name = connection.name
        self.user = ""
        self.frame_max = server.config.limits.frame_bytes_min
        self.notifies_cancel = False
        self.channels: dict[int, Channel] = {}
        self._server = server
        self._connection = connection
        self._machine = machine
        self._scanner = framing.FrameScanner(
            server.config.limits.frame_bytes_max, server.config.max_message_bytes
        )
        self._events: deque[tuple[Any, ...]] = deque()
        self._closing_channels: set[int] = set()
        self._waiting: asyncio.Future[None] | None = None
        self.write(method_frame(0, machine.greeting))

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over and nobody has begun to close."""
        return self._machine.state is ConnectionState.OPEN

    @property
    def vhost(self) -> str:
        """The virtual host that is open; empty before and after."""
        return self._machine.vhost if self.is_open else ""

    # amqp_server.broker.client.Client

    @property
    def is_writable(self) -> bool:
        """Whether the write buffer has room for deliveries."""
        return self._connection.is_writable

    def write(self, octets: bytes) -> None:
        """Send frames."""
        self._connection.write(octets)

    def pause_reading(self, reason: object) -> None:
        """Stop reading until every reason is lifted."""
        self._connection.pause_reading(reason)

    def resume_reading(self, reason: object) -> None:
        """Lift one reason for not reading."""
        self._connection.resume_reading(reason)

    # For the connection

    def receive(self, buffer: bytearray, at: int, end: int) -> int:
        """Take what was read; return the position of the rest, which must come again.

        Nothing of the buffer is kept.
        """
        events: list[tuple[Any, ...]] = []
        at = self._scanner.scan(buffer, at, end, events)
        self._events.extend(events)
        self._handle_events()
        return self._take_misplaced_publish(buffer, at, end) if end - at > 11 else at

    def _take_misplaced_publish(self, buffer: bytearray, at: int, end: int) -> int:
        """Take the method of a publish that is wrong already, before its content has arrived.

        The scanner waits for the whole of a publish. Where content is due, or on channel 0, its
        client may be waiting for the answer.
        """
        stop = at + 8 + int.from_bytes(buffer[at + 3 : at + 7], "big")
        if stop > end or buffer[at] != 1 or buffer[at + 7 : at + 11] != _PUBLISH_ID:
            return at
        number = int.from_bytes(buffer[at + 1 : at + 3], "big")
        channel = self.channels.get(number)
        if number != 0 and (channel is None or not channel.publishing.is_unfinished):
            return at
        self._events.append((framing.METHOD, number, bytes(buffer[at + 7 : stop - 1])))
        self._handle_events()
        return stop

    def resume_handling(self) -> None:
        """Go on with events: there is room for answers again."""
        self._handle_events()

    def wake_consumers(self) -> None:
        """Go on with deliveries: the write buffer has room again."""
        for channel in self.channels.values():
            channel.wake_consumers()

    def end(self) -> None:
        """Give back everything that the client held; its connection is gone."""
        self._events.clear()
        self._release_everything()

    def force_close(self, explanation: str) -> None:
        """Tell the client why it has to go; the connection closes when it has answered."""
        if not self.is_open:
            self._connection.close()
            return
        error = ConnectionForced(explanation)
        self._send_close(ConnectionClose(reply_code=320, reply_text=error.reply_text))

    # Closing

    def _send_close(self, close: ConnectionClose) -> None:
        self._release_everything()
        self._events.clear()
        self.write(method_frame(0, close))
        self._machine.close()
        self._connection.close_later()

    def _release_everything(self) -> None:
        channels, self.channels = list(self.channels.values()), {}
        for channel in channels:
            channel.close()
        self._server.broker.delete_queues_of(self)

    def _fail(self, error: AmqpError) -> None:
        """Close the connection with an error, or silently while the peer is unknown."""
        if self._machine.state in (ConnectionState.CLOSING, ConnectionState.CLOSED):
            return
        logger.warning("connection error peer=%s user=%s error=%s", self.name, self.user, error)
        state = self._machine.state
        told = state is not ConnectionState.AWAITING_START_OK or self._machine.capability(
            "authentication_failure_close"
        )
        if not told:
            self._release_everything()
            self._events.clear()
            self._machine.close()
            self._connection.close_in_silence()
            return
        self._send_close(
            ConnectionClose(
                reply_code=int(error.reply_code),
                reply_text=error.reply_text,
                class_id_=error.class_id,
                method_id_=error.method_id,
            )
        )

    # Events

    def _handle_events(self) -> None:
        """Handle events in order until one has to wait, or nobody reads the answers."""
        while self._events and self._waiting is None and not self._connection.is_clogged:
            event = self._events.popleft()
            try:
                self._handle(event)
            except SoftError as error:
                self._close_channel(event[1], error)
            except FieldSyntaxError as error:
                is_method = event[0] == framing.METHOD
                self._fail(undecodable(event[2], error) if is_method else error)
            except HardError as error:
                self._fail(error)
            except Exception:
                logger.exception("internal error peer=%s", self.name)
                self._fail(InternalError("internal error, see the server's log"))

    def _handle(self, event: tuple[Any, ...]) -> None:
        kind, number = event[0], event[1]
        if self._machine.state is ConnectionState.CLOSED:
            return
        if kind == framing.METHOD and number == 0:
            self._handle_connection_method(event[2])
            return
        if kind == framing.ERROR:
            if event[2] == FrameError.reply_code:
                raise FrameError(event[3])
            raise FieldSyntaxError(event[3], 60, 40)
        if self._machine.state is ConnectionState.CLOSING:
            return
        if kind == framing.HEARTBEAT:
            if number != 0:
                raise unexpected_frame(event)
            return
        if self._machine.state is not ConnectionState.OPEN:
            raise unexpected_frame(event)
        channel = self.channels.get(number)
        if channel is None:
            self._handle_without_channel(event)
        else:
            self._handle_on_channel(channel, event)

    def _handle_on_channel(self, channel: Channel, event: tuple[Any, ...]) -> None:
        match event[0]:
            case framing.PUBLISH:
                channel.publishing.publish_run(event[2], event[3], event[4], event[5])
            case framing.ACK:
                channel.publishing.expect_method()
                channel.settle_ranges(event[2])
            case framing.METHOD:
                self._handle_method(channel, event[2])
            case framing.HEADER:
                channel.publishing.take_header(event[2])
            case framing.BODY:
                channel.publishing.take_body(event[2])

    def _handle_connection_method(self, payload: bytes) -> None:
        machine = self._machine
        method = decode_method(payload)
        if method.class_id != 10:
            raise machine.unexpected(method.class_id, method.method_id)
        try:
            answer = machine.receive(method)
        except AccessRefused as error:
            self._fail(error)
            return
        except AmqpError as error:
            # On channel 0 even a soft error ends the connection.
            self._fail(error.with_method(method.class_id, method.method_id))
            return
        if answer is not None:
            self.write(method_frame(0, answer))
        if machine.state is ConnectionState.CLOSED:
            self._release_everything()
            self._events.clear()
            self._connection.close()
        elif machine.state is ConnectionState.AWAITING_OPEN:
            self._tuned()
        elif machine.state is ConnectionState.OPEN and not self.user:
            self._connection.handshake_done()
            self.user = machine.user
            logger.info(
                "connection open peer=%s user=%s vhost=%s", self.name, self.user, machine.vhost
            )

    def _tuned(self) -> None:
        self.frame_max = self._machine.frame_max
        self._scanner.frame_max = self.frame_max
        self._scanner.body_bytes_max = min(
            self.frame_max - 8, self._server.config.max_message_bytes
        )
        self.notifies_cancel = self._machine.capability("consumer_cancel_notify")
        self._connection.begin_heartbeats(self._machine.heartbeat_seconds)

    def _handle_without_channel(self, event: tuple[Any, ...]) -> None:
        kind, number = event[0], event[1]
        if number in self._closing_channels:
            # Everything is ignored until close-ok, undecoded; a crossing close is answered.
            identity = event[2][:4] if kind == framing.METHOD else b""
            if identity == _CHANNEL_CLOSE_OK_ID:
                self._closing_channels.discard(number)
            elif identity == _CHANNEL_CLOSE_ID:
                self.write(method_frame(number, ChannelCloseOk()))
            return
        if kind in (framing.HEADER, framing.BODY):
            if number == 0:
                raise unexpected_frame(event)
            raise UnexpectedFrame("expected method frame, got non method frame instead")
        if number == 0:
            raise self._machine.unexpected(*failed_method(event))
        method = decode_method(event[2]) if kind == framing.METHOD else None
        if not isinstance(method, ChannelOpen):
            raise ChannelError("expected 'channel.open'", *failed_method(event))
        if len(self.channels) >= self._machine.channel_max:
            # As in RabbitMQ the channels are counted; their numbers may be any.
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated "
                f"channel_max ({self._machine.channel_max})"
            )
        broker = self._server.broker
        vhost = broker.vhosts[self._machine.vhost]
        channel = self.channels[number] = Channel(number, self, vhost, broker)
        channel.send(ChannelOpenOk())

    def _handle_method(self, channel: Channel, payload: bytes) -> None:
        channel.publishing.expect_method()
        if payload[:4] == _PUBLISH_ID:
            channel.publishing.begin_content(payload)
            return
        method = decode_method(payload)
        if not method.is_utf8:
            raise FrameError("Malformed UTF-8 in shortstr")
        try:
            waiting = self._call_handler(channel, method)
        except AmqpError as error:
            raise error.with_method(method.class_id, method.method_id) from error.__cause__
        if waiting is not None:
            self._wait_for(channel, method, waiting)

    def _call_handler(self, channel: Channel, method: Method) -> Awaitable[None] | None:
        match method:
            case ChannelClose():
                del self.channels[channel.number]
                channel.close()
                channel.send(ChannelCloseOk())
                return None
            case ChannelOpen():
                raise ChannelError("second 'channel.open' seen")
            case ChannelFlow():
                if not method.active:
                    raise NotImplementedAmqp("active=false")
                channel.send(ChannelFlowOk(active=True))
                return None
        handler = HANDLERS.get(type(method))
        if handler is None:
            # A method that only a server sends, or one that belongs on channel 0.
            raise CommandInvalid("unimplemented method")
        return handler(channel, method)

    def _wait_for(self, channel: Channel, method: Method, waiting: Awaitable[None]) -> None:
        """Handle nothing more of this client until `waiting` is done."""
        self.pause_reading("waiting")
        self._waiting = asyncio.ensure_future(waiting)

        def done(future: asyncio.Future[None]) -> None:
            self._waiting = None
            error = future.exception() if not future.cancelled() else None
            if isinstance(error, SoftError):
                self._close_channel(
                    channel.number, error.with_method(method.class_id, method.method_id)
                )
            elif error is not None:
                logger.error(
                    "method failed peer=%s method=%s", self.name, method.name, exc_info=error
                )
                self._fail(InternalError("internal error, see the server's log"))
            self._handle_events()
            if self._waiting is None:
                self.resume_reading("waiting")

        self._waiting.add_done_callback(done)

    def _close_channel(self, number: int, error: SoftError) -> None:
        """End a channel with an error; its frames are ignored until close-ok."""
        channel = self.channels.pop(number, None)
        if channel is None:
            return
        logger.warning("channel error peer=%s channel=%d error=%s", self.name, number, error)
        channel.close()
        self._closing_channels.add(number)
        self.write(
            method_frame(
                number,
                ChannelClose(
                    reply_code=int(error.reply_code),
                    reply_text=error.reply_text,
                    class_id_=error.class_id,
                    method_id_=error.method_id,
                ),
            )
        )
