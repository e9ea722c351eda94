"""A connection to a broker: one socket, its TLS and heartbeats, and the channels on it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Final, Self, cast

from amqp_server.protocol.constants import PROTOCOL_HEADER
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.framing import BrokenFrame, FrameScanner, HeartbeatFrame, MethodFrame
from amqp_server.protocol.methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    decode_method,
    method_frame,
)
from amqp_server.shovel.link.channel import LinkChannel
from amqp_server.shovel.link.errors import CannotConnectError, LinkClosed
from amqp_server.shovel.link.handshake import Handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from amqp_server.protocol.field_values import PythonValue
    from amqp_server.protocol.framing import Event
    from amqp_server.protocol.methods import Method
    from amqp_server.shovel.link.amqp_uri import AmqpUri

READ_BYTES: Final = 256 * 1024
"""Room for one read; it grows while a frame does not fit."""
FRAME_BYTES_ACCEPTED: Final = 16 * 1024 * 1024
"""Largest frame that is read: a content header is one frame, however large."""
UNSENT_BYTES_MAX: Final = 1024 * 1024
"""Unsent bytes above which publishers wait."""
CLOSE_SECONDS_MAX: Final = 2.0
"""Time that the peer has to answer `connection.close`."""
SILENT_INTERVALS_MAX: Final = 2
"""Intervals of heartbeats without an octet after which the peer counts as gone."""
_REPLY_CHARACTERS_MAX: Final = 63
_HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


async def connect(
    uri: AmqpUri,
    client_properties: Mapping[str, PythonValue] | None = None,
    why_refused_from: Callable[[str], str] | None = None,
) -> LinkConnection:
    """Connect to a broker and log in.

    Args:
        uri: Address of the broker; it names a host.
        client_properties: Properties that the broker shows, such as `connection_name`.
        why_refused_from: Called with the IP address of this end before anything is sent; returns
            why there must be no login from there, empty if there may.

    Raises:
        CannotConnectError: Nothing answers there, or not in time, or TLS fails.
        LinkClosed: The broker refuses, or is no broker.
    """
    if uri.is_local:
        raise CannotConnectError("the address names no host")
    for each in (uri.host, uri.server_name):
        try:
            each.encode("idna")
        except UnicodeError:
            # The event loop would raise it, and leave a socket open.
            raise CannotConnectError(f"'{each:.255}' is no host name") from None
    connection = LinkConnection(Handshake(uri, client_properties or {}), why_refused_from)
    try:
        async with asyncio.timeout(uri.connection_timeout_seconds):
            context = await asyncio.to_thread(client_context, uri) if uri.is_tls else None
            name = uri.server_name if uri.server_name not in ("", "disable") else uri.host
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                uri.host,
                uri.port,
                ssl=context,
                server_hostname=name if context is not None else None,
            )
            await connection.opened
    except TimeoutError:
        connection.abort()
        seconds = uri.connection_timeout_seconds
        text = f"{uri.host}:{uri.port} did not answer within {seconds:g} s"
        raise CannotConnectError(text) from None
    except OSError as error:
        # `ssl.SSLError` and the error of a name that does not exist are among these.
        connection.abort()
        text = f"cannot connect to {uri.host}:{uri.port}: {error.strerror or error}"
        raise CannotConnectError(text) from error
    except BaseException:
        connection.abort()
        raise
    return connection


class LinkConnection(asyncio.BufferedProtocol):
    """One connection; `connect` makes it.

    Args:
        handshake: Logs in.
        why_refused_from: As for `connect`.

    Attributes:
        opened: Is done when the connection is open.
        blocked_reason: Why the broker does not let this connection publish; empty if it does.
    """

    def __init__(
        self, handshake: Handshake, why_refused_from: Callable[[str], str] | None = None
    ) -> None:
        loop = asyncio.get_running_loop()
        self._why_refused_from = why_refused_from
        self._handshake = handshake
        self.opened: asyncio.Future[None] = loop.create_future()
        self.opened.add_done_callback(_noticed)
        self._ended: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._scanner = FrameScanner(FRAME_BYTES_ACCEPTED, 0)
        self._buffer = bytearray(READ_BYTES)
        self._filled = 0
        self._channels: dict[int, LinkChannel] = {}
        self._error: LinkClosed | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_write_full = False
        self.blocked_reason = ""
        self._is_paused = False
        self._has_read = self._has_written = False
        self._silent_beats = 0
        self._beat: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def frame_max(self) -> int:
        """Largest frame in octets, framing included."""
        return self._handshake.frame_max

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._error is None

    @property
    def server_properties(self) -> dict[str, object]:
        """Properties of the server, as bytes, numbers and so on."""
        return {name: each.value for name, each in self._handshake.server_properties.items()}

    async def open_channel(self) -> LinkChannel:
        """Open another channel.

        Raises:
            LinkClosed: The connection has ended, or may have no more channels.
        """
        if self._error is not None:
            raise self._error
        number = next(
            (each for each in range(1, self._handshake.channel_max + 1) if not self._has(each)), 0
        )
        if number == 0:
            raise LinkClosed(0, f"{len(self._channels)} channels are open, no more are allowed")
        channel = self._channels[number] = LinkChannel(self, number)
        await channel.open()
        return channel

    def _has(self, number: int) -> bool:
        return number in self._channels

    async def close(self) -> None:
        """End it; what is not acked goes back to its queue."""
        if self._error is None:
            self.write(method_frame(0, ConnectionClose(reply_code=200, reply_text="done")))
            self._fail_all(LinkClosed(0, "the connection is closed"))
            self._is_paused = False
            if self._transport is not None:
                self._transport.resume_reading()
                try:
                    await asyncio.wait([self._ended], timeout=CLOSE_SECONDS_MAX)
                finally:
                    # Also if the caller is cancelled: nothing else would close the socket.
                    self.abort()
                return
        self.abort()

    def abort(self) -> None:
        """End it at once."""
        self._fail_all(LinkClosed(0, "the connection is closed"))
        if self._transport is not None:
            self._transport.abort()

    # For its channels

    def write(self, octets: bytes) -> None:
        """Send octets; nothing happens after the end."""
        if self._transport is not None and self._error is None:
            self._has_written = True
            self._transport.write(octets)

    async def drained(self) -> None:
        """Wait until the socket takes more and the broker lets us publish."""
        if not self._may_write.is_set():
            await self._may_write.wait()

    def resume_reading(self) -> None:
        """Read again, if no consumer has too much."""
        if self._is_paused and self._transport is not None and self._error is None:
            self._is_paused = False
            self._transport.resume_reading()

    def forget(self, number: int) -> None:
        """Let another channel have this number."""
        self._channels.pop(number, None)

    def fail(self, error: LinkClosed) -> None:
        """End it because of what the peer did."""
        code = error.code or 541
        # A short string has room for so many characters, whatever the peer's texts are made of.
        text = error.text[:_REPLY_CHARACTERS_MAX]
        self.write(method_frame(0, ConnectionClose(reply_code=code, reply_text=text)))
        self._fail_all(error)
        if self._transport is not None:
            # Written octets still go out, if the peer reads.
            self._transport.close()

    # For the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        found = transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._why_refused_from is not None:
            reason = self._why_refused_from(transport.get_extra_info("sockname")[0])
            if reason:
                self._fail_all(LinkClosed(0, reason))
        if self._error is not None:
            self._transport.abort()
            return
        self._transport.write(PROTOCOL_HEADER)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the room for the next read."""
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle what was read."""
        self._has_read = True
        end = self._filled + nbytes
        if self._error is not None and self._transport is not None and not self._closes():
            self._filled = 0
            return
        events: list[Event] = []
        rest = self._scanner.scan(self._buffer, 0, end, events)
        left = end - rest
        if rest:
            self._buffer[:left] = self._buffer[rest:end]
        self._filled = left
        if left > len(self._buffer) // 2:
            larger = bytearray(2 * len(self._buffer))
            larger[:left] = memoryview(self._buffer)[:left]
            self._buffer = larger
        elif len(self._buffer) > READ_BYTES and left <= READ_BYTES // 2:
            smaller = bytearray(READ_BYTES)
            smaller[:left] = memoryview(self._buffer)[:left]
            self._buffer = smaller
        try:
            self._take_all(events)
        except AmqpError as error:
            self.fail(LinkClosed(int(error.reply_code), str(error.args[0])))
        except LinkClosed as error:
            self.fail(error)

    def eof_received(self) -> bool:
        """Close the socket."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End everything."""
        if not self._ended.done():
            self._ended.set_result(None)
        if self._error is None:
            if self.opened.done():
                text = "the peer has closed the socket"
            else:
                # Brokers do this after a wrong password if they think that we know no better way.
                text = "the peer has closed the socket during the login"
            self._fail_all(LinkClosed(0, f"{text}: {exc}" if exc is not None else text))
        self._stop_beating()

    def pause_writing(self) -> None:
        """Let publishers wait."""
        self._is_write_full = True
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Let publishers go on."""
        self._is_write_full = False
        self._set_may_write()

    # Frames

    def _closes(self) -> bool:
        """Whether we have said that we close, and wait for the answer."""
        return not self._ended.done()

    def _take_all(self, events: list[Event]) -> None:
        touched: dict[int, LinkChannel] = {}
        channels = self._channels
        last_number, channel = -1, None
        for event in events:
            number = event.channel
            if number == 0 or type(event) is BrokenFrame:
                self._take_own(event)
                continue
            if number != last_number:
                channel = channels.get(number)
                last_number = number
                if channel is not None:
                    touched[number] = channel
            if channel is None:
                if self._error is not None:
                    continue
                raise LinkClosed(504, f"the peer uses channel {number}, which is not open")
            channel.take(event)
        must_pause = False
        for channel in touched.values():
            must_pause = channel.end_of_read() or must_pause
        if must_pause and not self._is_paused and self._error is None:
            self._is_paused = True
            assert self._transport is not None, "something was read"
            self._transport.pause_reading()

    def _take_own(self, event: Event) -> None:
        """Handle a frame of channel 0, or octets that are none."""
        if isinstance(event, HeartbeatFrame):
            return
        if isinstance(event, BrokenFrame):
            raise LinkClosed(501, f"the peer sent octets that are no frame: {event.text}")
        if not isinstance(event, MethodFrame):
            raise LinkClosed(505, "the peer sent a content on channel 0")
        method = decode_method(event.payload)
        if isinstance(method, ConnectionCloseOk) and self._error is not None:
            assert self._transport is not None, "something was read"
            self._transport.close()
        elif isinstance(method, ConnectionClose):
            self.write(method_frame(0, ConnectionCloseOk()))
            self._fail_all(LinkClosed(method.reply_code, method.reply_text))
            if self._transport is not None:
                self._transport.close()
        elif not self._handshake.is_open:
            self._go_on(method)
        elif isinstance(method, ConnectionBlocked):
            self.blocked_reason = method.reason or "unknown"
            self._may_write.clear()
            self._wake_channels()
        elif isinstance(method, ConnectionUnblocked):
            self.blocked_reason = ""
            self._set_may_write()
            self._wake_channels()
        elif self._error is None:
            raise LinkClosed(503, f"the peer sent {method.name}, which answers nothing")

    def _go_on(self, method: Method) -> None:
        for answer in self._handshake.answer(method):
            self.write(method_frame(0, answer))
        if self._handshake.is_open:
            if self._handshake.heartbeat_seconds:
                self._schedule_beat()
            if not self.opened.done():
                self.opened.set_result(None)

    def _wake_channels(self) -> None:
        for channel in list(self._channels.values()):
            channel.end_of_read()

    def _set_may_write(self) -> None:
        if not self._is_write_full and not self.blocked_reason:
            self._may_write.set()

    def _fail_all(self, error: LinkClosed) -> None:
        if self._error is not None:
            return
        self._error = error
        if not self.opened.done():
            self.opened.set_exception(error)
        for channel in list(self._channels.values()):
            channel.end(error)
        self._may_write.set()
        self._stop_beating()

    # Heartbeats: every half interval, as RabbitMQ's clients do

    def _schedule_beat(self) -> None:
        seconds = self._handshake.heartbeat_seconds / 2
        self._beat = asyncio.get_running_loop().call_later(seconds, self._on_beat)

    def _on_beat(self) -> None:
        if not self._has_written:
            self.write(_HEARTBEAT)
        self._has_written = False
        # While we do not read, we cannot see that the peer lives.
        self._silent_beats = 0 if self._has_read or self._is_paused else self._silent_beats + 1
        self._has_read = False
        if self._silent_beats > 2 * SILENT_INTERVALS_MAX:
            seconds = self._handshake.heartbeat_seconds
            self._fail_all(
                LinkClosed(0, f"the peer sent nothing in {SILENT_INTERVALS_MAX * seconds} s")
            )
            assert self._transport is not None, "the connection was open"
            self._transport.abort()
            return
        self._schedule_beat()

    def _stop_beating(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None


def _noticed(future: asyncio.Future[None]) -> None:
    """Mark an error as seen: a connection that fails early is told of by `connect`."""
    if not future.cancelled():
        future.exception()


def client_context(uri: AmqpUri) -> ssl.SSLContext:
    """Return the TLS settings of a connection; reads files, so a worker calls it.

    Raises:
        CannotConnectError: A file cannot be read, or is not what it should be.
    """
    try:
        context = ssl.create_default_context(cafile=uri.cacertfile or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not uri.verifies_peer:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if uri.server_name == "disable":
            context.check_hostname = False
        if uri.certfile:
            # A key with a password must not ask a terminal for it.
            context.load_cert_chain(uri.certfile, uri.keyfile or None, password=lambda: "")
    except (OSError, ValueError) as error:
        files = " ".join(filter(None, (uri.cacertfile, uri.certfile, uri.keyfile)))
        raise CannotConnectError(f"TLS files {files}: {error}") from error
    return context
