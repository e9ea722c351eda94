"""One client's connection: octets from the socket to the broker and back.

The thin shell around the sans-IO parts: it owns the transport, feeds the frame scanner, and
turns errors into the closes that the specification asks for. Events are handled in the order
of arrival; where a handler must wait for the disk, nothing further of this client is handled
until it is done, and its socket is not read meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from amqp_server.broker.channel import Channel
from amqp_server.broker.handlers import HANDLERS
from amqp_server.protocol.connection_machine import ConnectionMachine, ConnectionState
from amqp_server.protocol.errors import (
    AmqpError,
    ChannelError,
    CommandInvalid,
    FieldSyntaxError,
    FrameError,
    HardError,
    InternalError,
    NotAllowed,
    NotImplementedAmqp,
    SoftError,
    UnexpectedFrame,
)
from amqp_server.protocol.framing import (
    ACK,
    BODY,
    ERROR,
    HEADER,
    HEARTBEAT,
    METHOD,
    PUBLISH,
    FrameScanner,
)
from amqp_server.protocol.methods import (
    BasicPublish,
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

    from amqp_server.server import Server

logger = logging.getLogger(__name__)

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
_OLD_PROTOCOL_HEADER = b"AMQP\x01\x01\x00\x09"
_HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
_PUBLISH_ID = b"\x00\x3c\x00\x28"
CLOSE_SECONDS_MAX = 2.0
"""How long a peer may take to answer connection.close before its socket is closed."""
WRITE_BUFFER_HIGH_BYTES = 1024 * 1024
"""Unsent bytes above which a client gets no more deliveries."""


class ClientConnection(asyncio.BufferedProtocol):
    """The protocol of one accepted socket; implements the broker's `Client`."""

    def __init__(self, server: Server) -> None:
        """Wait for the transport."""
        self.name = "?"
        self.user = ""
        self.frame_max = server.config.limits.frame_bytes_min
        self.is_writable = True
        self.notifies_cancel = False
        self.channels: dict[int, Channel] = {}
        self.heartbeat_seconds = 0
        self._server = server
        self._limits = server.config.limits
        self._transport: asyncio.Transport | None = None
        self._machine: ConnectionMachine | None = None
        self._scanner = FrameScanner(self._limits.frame_bytes_max, server.config.max_message_bytes)
        self._rest = b""
        self._events: deque[tuple[Any, ...]] = deque()
        self._closing_channels: set[int] = set()
        self._pauses: set[object] = set()
        self._waiting: asyncio.Future[None] | None = None
        self._has_received = False
        self._has_sent = False
        self._is_lost = False
        self._peer: object = None
        self._timer: asyncio.TimerHandle | None = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; the client speaks first."""
        # uvloop's transports have the interface, not the base class.
        self._transport = transport = cast("asyncio.Transport", transport)
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._peer = peer
        self.name = f"{_address(peer)} -> {_address(local)}"
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_BYTES)
        if not self._server.admit(self):
            logger.warning("connection refused peer=%s reason=too many connections", self.name)
            transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(
            self._limits.handshake_seconds_max, self.abandon, "handshake timeout"
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend the loop's read buffer, after the rest of what came before."""
        buffer = self._server.read_buffer
        rest = len(self._rest)
        buffer[:rest] = self._rest
        return self._server.read_view[rest:]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read; everything of it is handled or copied before this returns."""
        self._has_received = True
        end = len(self._rest) + nbytes
        if end == len(self._server.read_buffer):
            self._server.note_more_input()
        at = 0
        if self._machine is None:
            at = self._receive_protocol_header(end)
        if self._machine is not None and not self._is_lost:
            events: list[tuple[Any, ...]] = []
            at = self._scanner.scan(self._server.read_buffer, at, end, events)
            self._events.extend(events)
            self._handle_events()
        self._rest = bytes(self._server.read_view[at:end]) if at < end else b""

    def eof_received(self) -> bool:
        """Let the transport close when the peer has no more to say."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back everything that the client held."""
        self._is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        if self._machine is not None and self._machine.state is ConnectionState.OPEN:
            logger.warning("connection lost peer=%s reason=%s", self.name, exc or "closed by peer")
        self._events.clear()
        self._release_everything()
        self._server.forget(self)

    def pause_writing(self) -> None:
        """Stop deliveries: the client does not read fast enough."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Go on with deliveries."""
        self.is_writable = True
        self.resume_reading("write buffer")
        for channel in self.channels.values():
            channel.wake_consumers()

    # amqp_server.broker.client.Client

    def write(self, octets: bytes) -> None:
        """Send frames."""
        if self._transport is None or self._is_lost:
            return
        self._has_sent = True
        self._transport.write(octets)
        if (
            not self.is_writable
            and self._transport.get_write_buffer_size() > self._limits.write_buffer_bytes_per_connection_max
        ):
            # Answers pile up at a client that asks and does not read: stop listening to it.
            self.pause_reading("write buffer")

    def pause_reading(self, reason: object) -> None:
        """Stop reading the socket until every reason is lifted."""
        if not self._pauses and self._transport is not None:
            self._transport.pause_reading()
        self._pauses.add(reason)

    def resume_reading(self, reason: object) -> None:
        """Lift one reason for not reading."""
        if reason in self._pauses:
            self._pauses.discard(reason)
            if not self._pauses and self._transport is not None and not self._is_lost:
                self._transport.resume_reading()

    # amqp_server.heartbeats.Beating

    def beat(self) -> None:
        """Send a heartbeat if nothing else was sent since the last time."""
        if not self._has_sent:
            self.write(_HEARTBEAT_FRAME)
        self._has_sent = False

    def take_silence(self) -> bool:
        """Return whether nothing arrived though it was listened to."""
        silent = not self._has_received and not self._pauses
        self._has_received = False
        return silent

    def abandon(self, reason: str) -> None:
        """Drop the connection without a word to the peer."""
        logger.warning("closing connection peer=%s reason=%s", self.name, reason)
        if self._transport is not None:
            self._transport.abort()

    # The end

    def shut_down(self) -> None:
        """Tell the client that the server stops, and close when it has answered."""
        if self._machine is None or self._machine.state is not ConnectionState.OPEN:
            if self._transport is not None:
                self._transport.close()
            return
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        self._send_close(ConnectionClose(reply_code=320, reply_text=text, class_id=0, method_id=0))

    def _send_close(self, close: ConnectionClose) -> None:
        self._release_everything()
        self._events.clear()
        self.write(method_frame(0, close))
        assert self._machine is not None, "only a greeted peer is told why"
        self._machine.close()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS_MAX, self._close_transport)

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _release_everything(self) -> None:
        channels, self.channels = list(self.channels.values()), {}
        for channel in channels:
            channel.close()
        self._server.broker.delete_queues_of(self)
        self._server.heartbeats.remove(self)

    def _fail(self, error: AmqpError) -> None:
        """Close the connection with an error, or silently while the peer is unknown."""
        assert self._machine is not None, "errors come after the greeting"
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
            self._close_transport()
            return
        self._send_close(
            ConnectionClose(
                reply_code=int(error.reply_code),
                reply_text=error.reply_text,
                class_id=error.class_id,
                method_id=error.method_id,
            )
        )

    # Arriving octets

    def _receive_protocol_header(self, end: int) -> int:
        """Answer the protocol header; return the position after it."""
        received = bytes(self._server.read_view[: min(end, 8)])
        if len(received) < 8 and PROTOCOL_HEADER.startswith(received):
            return 0
        if received not in (PROTOCOL_HEADER, _OLD_PROTOCOL_HEADER):
            logger.warning("bad protocol header peer=%s hint=%s", self.name, _hint(received))
            self.write(PROTOCOL_HEADER)
            self._is_lost = True
            self._close_transport()
            return end
        self._machine = self._server.new_machine(_host(self._peer))
        self.write(method_frame(0, self._machine.greeting))
        return 8

    def _handle_events(self) -> None:
        """Handle events in order until one has to wait."""
        while self._events and self._waiting is None:
            event = self._events.popleft()
            try:
                self._handle(event)
            except SoftError as error:
                self._close_channel(event[1], error)
            except HardError as error:
                self._fail(error)
            except Exception:
                logger.exception("internal error peer=%s", self.name)
                self._fail(InternalError("internal error, see the server's log"))

    def _handle(self, event: tuple[Any, ...]) -> None:
        kind, number = event[0], event[1]
        if self._machine is None or self._machine.state is ConnectionState.CLOSED:
            return
        if kind == METHOD and number == 0:
            self._handle_connection_method(event[2])
            return
        if kind == ERROR:
            raise FrameError(event[3]) if event[2] == FrameError.reply_code else FieldSyntaxError(event[3])
        if self._machine.state is ConnectionState.CLOSING:
            return
        if kind == HEARTBEAT:
            if number != 0:
                raise UnexpectedFrame("heartbeat frame on a channel other than 0")
            return
        if self._machine.state is not ConnectionState.OPEN:
            raise CommandInvalid("channel method before the connection is open")
        channel = self.channels.get(number)
        if channel is None:
            self._handle_without_channel(event)
        elif kind == PUBLISH:
            channel.publish_run(event[2], event[3], event[4], event[5])
        elif kind == ACK:
            channel.settle_ranges(event[2])
        elif kind == METHOD:
            self._handle_method(channel, event[2])
        elif kind == HEADER:
            channel.take_header(event[2])
        elif kind == BODY:
            channel.take_body(event[2])

    def _handle_connection_method(self, payload: bytes) -> None:
        machine = self._machine
        assert machine is not None, "methods come after the greeting"
        method = decode_method(payload)
        if method.class_id != 10:
            raise CommandInvalid(f"method {method.name} on channel 0").with_method(
                method.class_id, method.method_id
            )
        try:
            answer = machine.receive(method)
        except AmqpError as error:
            # On channel 0 even a soft error ends the connection.
            self._fail(error.with_method(method.class_id, method.method_id))
            return
        if answer is not None:
            self.write(method_frame(0, answer))
        if machine.state is ConnectionState.CLOSED:
            self._release_everything()
            self._events.clear()
            self._close_transport()
        elif machine.state is ConnectionState.AWAITING_OPEN:
            self._tuned()
        elif machine.state is ConnectionState.OPEN and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.user = machine.user
            logger.info("connection open peer=%s user=%s vhost=%s", self.name, self.user, machine.vhost)

    def _tuned(self) -> None:
        assert self._machine is not None, "tuned after the greeting"
        self.frame_max = self._machine.frame_max
        self._scanner.frame_max = self.frame_max
        self._scanner.body_bytes_max = min(self.frame_max - 8, self._server.config.max_message_bytes)
        self.notifies_cancel = self._machine.capability("consumer_cancel_notify")
        self.heartbeat_seconds = self._machine.heartbeat_seconds
        if self.heartbeat_seconds:
            self._server.heartbeats.add(self)

    def _handle_without_channel(self, event: tuple[Any, ...]) -> None:
        kind, number = event[0], event[1]
        assert self._machine is not None, "channels come after the greeting"
        method = decode_method(event[2]) if kind == METHOD else None
        if number in self._closing_channels:
            # Everything is ignored until close-ok; a crossing close is answered.
            if isinstance(method, ChannelCloseOk):
                self._closing_channels.discard(number)
            elif isinstance(method, ChannelClose):
                self.write(method_frame(number, ChannelCloseOk()))
            return
        if kind in (HEADER, BODY):
            raise UnexpectedFrame("expected method frame, got non method frame instead")
        if not isinstance(method, ChannelOpen):
            raise ChannelError("expected 'channel.open'").with_method(*_failed(event))
        if number > self._machine.channel_max or len(self.channels) >= self._machine.channel_max:
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated "
                f"channel_max ({self._machine.channel_max})"
            ).with_method(20, 10)
        broker = self._server.broker
        vhost = broker.vhosts[self._machine.vhost]
        channel = self.channels[number] = Channel(number, self, vhost, broker)
        channel.send(ChannelOpenOk())

    def _handle_method(self, channel: Channel, payload: bytes) -> None:
        channel.expect_method()
        if payload[:4] == _PUBLISH_ID:
            channel.begin_content(payload)
            return
        method = decode_method(payload)
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
        if method.class_id == 10:
            raise CommandInvalid(f"method {method.name} on channel {channel.number}")
        handler = HANDLERS.get(type(method))
        if handler is None:
            raise NotImplementedAmqp(f"method {method.name}")
        return handler(channel, method)

    def _wait_for(self, channel: Channel, method: Method, waiting: Awaitable[None]) -> None:
        """Handle nothing more of this client until `waiting` is done."""
        self.pause_reading("waiting")
        self._waiting = asyncio.ensure_future(waiting)

        def done(future: asyncio.Future[None]) -> None:
            self._waiting = None
            error = future.exception() if not future.cancelled() else None
            if isinstance(error, SoftError):
                self._close_channel(channel.number, error.with_method(method.class_id, method.method_id))
            elif error is not None:
                logger.error("method failed peer=%s method=%s", self.name, method.name, exc_info=error)
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
                    class_id=error.class_id,
                    method_id=error.method_id,
                ),
            )
        )


def _failed(event: tuple[Any, ...]) -> tuple[int, int]:
    """Return class and method of an event that came on a channel that is not open."""
    if event[0] == PUBLISH:
        return BasicPublish.class_id, BasicPublish.method_id
    if event[0] == ACK:
        return 60, 80
    return int.from_bytes(event[2][:2], "big"), int.from_bytes(event[2][2:4], "big")


def _host(name: object) -> str:
    """Return the address of a socket name; a Unix socket's peer is this machine."""
    return str(name[0]) if isinstance(name, tuple) and name else "127.0.0.1"


def _address(name: object) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        return f"{name[0]}:{name[1]}"
    return str(name) or "?"


def _hint(received: bytes) -> str:
    """Return what a peer that does not speak AMQP probably is."""
    if received[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "an HTTP client; this port speaks AMQP 0-9-1"
    if received[:2] == b"\x16\x03":
        return "a TLS client; this port speaks AMQP 0-9-1 without TLS"
    if received[:4] == b"AMQP":
        return f"another version of AMQP ({received[4:].hex(' ')})"
    return "not an AMQP client"
