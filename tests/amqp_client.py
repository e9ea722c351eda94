"""A small blocking AMQP 0-9-1 client for tests, which does nothing by itself.

It never answers, acknowledges or reconnects by itself, and it can send any octets. A test says
what it sends and what it expects next:

    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.publish(b"hello", "q")
        assert client.get("q").body == b"hello"

Frames are encoded and decoded by pamqp, so that a mistake of ours is not made twice.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pamqp import body, commands, constants, frame, header, heartbeat
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.limits import HANG_SECONDS

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
RECEIVE_BYTES: Final = 256 * 1024
FRAME_OVERHEAD_BYTES: Final = 8

MethodT = TypeVar("MethodT", bound=Frame)
AnyFrame = Frame | header.ContentHeader | body.ContentBody | heartbeat.Heartbeat
PERSISTENT: Final = Basic.Properties(delivery_mode=2)


class AnyDeclare(Queue.Declare):
    """A queue.declare of any name: pamqp knows fewer than brokers do."""

    def validate(self) -> None:
        """Take it."""


class AnyGet(Basic.Get):
    """A basic.get from a queue of any name."""

    def validate(self) -> None:
        """Take it."""


class AnyPublish(Basic.Publish):
    """A basic.publish with any routing key."""

    def validate(self) -> None:
        """Take it."""


class ConnectionLostError(ConnectionError):
    """The server closed the socket, or its process ended."""


@dataclass(frozen=True, slots=True)
class Message:
    """A method that carries content, with its content."""

    method: Basic.Deliver | Basic.GetOk | Basic.Return
    properties: Basic.Properties
    body: bytes

    @property
    def tag(self) -> int:
        """Delivery tag of a delivery."""
        assert not isinstance(self.method, Basic.Return), "a return has no delivery tag"
        assert self.method.delivery_tag is not None
        return self.method.delivery_tag

    @property
    def redelivered(self) -> bool:
        """Whether a delivery is marked so."""
        assert not isinstance(self.method, Basic.Return), "a return is no delivery"
        return bool(self.method.redelivered)


class _Confirms:
    """Which publishes of a channel are acknowledged; the server may take them in any order."""

    def __init__(self) -> None:
        self.last_tag = 0
        self._beyond: set[int] = set()

    def take(self, ack: Basic.Ack | Basic.Nack) -> None:
        """Take an answer; `last_tag` is the last one with none missing before it."""
        assert ack.delivery_tag is not None
        if ack.multiple:
            self.last_tag = max(self.last_tag, ack.delivery_tag)
        else:
            self._beyond.add(ack.delivery_tag)
        while self.last_tag + 1 in self._beyond:
            self._beyond.remove(self.last_tag + 1)
            self.last_tag += 1


class FrameReader:
    """Cuts what a socket gives into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, octets: bytes) -> Iterator[tuple[int, AnyFrame]]:
        """Yield channel and frame of every frame that is whole; keep the rest."""
        data = self._rest + octets
        at = 0
        try:
            while len(data) - at >= FRAME_OVERHEAD_BYTES:
                end = at + FRAME_OVERHEAD_BYTES + int.from_bytes(data[at + 3 : at + 7], "big")
                if end > len(data):
                    break
                _, channel, value = frame.unmarshal(data[at:end])
                at = end
                assert not isinstance(value, header.ProtocolHeader), "not a frame"
                yield channel, value
        finally:
            self._rest = data[at:]


class AmqpClient:
    """One TCP connection to a server; `connect` also opens it.

    Args:
        address: Host and port.
        seconds_max: How long to wait for the next octets.
        over: Connected socket to use instead of a new one, such as one with TLS.

    Attributes:
        socket: To be shut down, slowed or stalled by a test.
        frame_max: Negotiated; bodies are cut to it.
        channel_max: Negotiated.
        vhost: That it was opened with.
        server_properties: What the server said of itself, from `start` on.
        published: Messages published by `publish` on each channel.
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        seconds_max: float = HANG_SECONDS,
        over: socket.socket | None = None,
    ) -> None:
        self.socket = over or socket.create_connection(address, timeout=seconds_max)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame_max = 131_072
        self.channel_max = 2047
        self.vhost = "/"
        self.server_properties: dict[str, Any] = {}
        self.published: Counter[int] = Counter()
        self._reader = FrameReader()
        self._frames: deque[tuple[int, AnyFrame]] = deque()
        self._confirms: defaultdict[int, _Confirms] = defaultdict(_Confirms)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the socket without a word."""
        self.socket.close()

    # Octets and frames

    def send_raw(self, octets: bytes) -> None:
        """Send octets as they are.

        Raises:
            ConnectionLostError: The server is gone.
        """
        try:
            self.socket.sendall(octets)
        except (ConnectionError, BrokenPipeError) as lost:
            raise ConnectionLostError(str(lost)) from lost

    def send(self, value: AnyFrame, channel: int = 1) -> None:
        """Send one frame."""
        self.send_raw(frame.marshal(value, channel))

    def send_method(self, payload: bytes, channel: int = 1) -> None:
        """Send a method frame with any payload."""
        self.send_raw(frame_octets(constants.FRAME_METHOD, channel, payload))

    def receive(self) -> tuple[int, AnyFrame]:
        """Return channel and frame of the next frame, heartbeats included.

        Raises:
            ConnectionLostError: The server is gone.
            TimeoutError: Nothing came.
        """
        while not self._frames:
            self._frames.extend(self._reader.feed(self.receive_raw()))
        number, value = self._frames.popleft()
        if isinstance(value, Basic.Ack | Basic.Nack):
            self._confirms[number].take(value)
        return number, value

    def receive_raw(self) -> bytes:
        """Return the next octets that are there, at least one."""
        try:
            octets = self.socket.recv(RECEIVE_BYTES)
        except ConnectionError as lost:
            raise ConnectionLostError(str(lost)) from lost
        if not octets:
            raise ConnectionLostError("closed by the server")
        return octets

    def expect(self, kind: type[MethodT], channel: int = 1) -> MethodT:
        """Return the next method, which must be of this kind and on this channel."""
        number, value = self.receive()
        while isinstance(value, heartbeat.Heartbeat):
            number, value = self.receive()
        assert isinstance(value, kind), f"expected {kind.name}, got {describe(value)}"
        assert number == channel, f"{kind.name} on channel {number}, expected on {channel}"
        return value

    def call(self, method: Frame, answer: type[MethodT], channel: int = 1) -> MethodT:
        """Send a method and return its answer, which must be the next frame."""
        self.send(method, channel)
        return self.expect(answer, channel)

    def expect_end(self) -> None:
        """Return when the server has closed the socket; only heartbeats may come before."""
        try:
            while True:
                _, value = self.receive()
                assert isinstance(value, heartbeat.Heartbeat), f"unexpected {describe(value)}"
        except ConnectionLostError:
            self.socket.close()

    # Opening and closing

    def open(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        capabilities: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        frame_max: int | None = None,
        channel_max: int | None = None,
        heartbeat_seconds: int = 0,
    ) -> None:
        """Go through the whole handshake; None takes what the server offers."""
        tune = self.login(
            user=user, password=password, capabilities=capabilities, properties=properties
        )
        self.frame_max = tune.frame_max if frame_max is None else frame_max
        self.channel_max = tune.channel_max if channel_max is None else channel_max
        self.vhost = vhost
        self.send(Connection.TuneOk(self.channel_max, self.frame_max, heartbeat_seconds), 0)
        self.call(Connection.Open(virtual_host=vhost), Connection.OpenOk, 0)

    def login(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        capabilities: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> Connection.Tune:
        """Go through the first half of the handshake and return what the server proposes."""
        self.start(user=user, password=password, capabilities=capabilities, properties=properties)
        return self.expect(Connection.Tune, 0)

    def start(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        mechanism: str = "PLAIN",
        response: str | None = None,
        capabilities: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        """Greet, and answer connection.start; the server's verdict is the next frame.

        Args:
            user: For the response of PLAIN.
            password: For the response of PLAIN.
            mechanism: Name of the mechanism.
            response: Sent instead of PLAIN's.
            capabilities: Of the client; None for those that change errors and cancellations.
            properties: Of the client, beside the capabilities.
        """
        self.send_raw(PROTOCOL_HEADER)
        start = self.expect(Connection.Start, 0)
        self.server_properties = dict(start.server_properties or {})
        known = {"authentication_failure_close": True, "consumer_cancel_notify": True}
        sent: Any = {"capabilities": known if capabilities is None else capabilities}
        sent |= properties or {}
        answer = f"\0{user}\0{password}" if response is None else response
        self.send(Connection.StartOk(sent, mechanism, answer, "en_US"), 0)

    def open_channel(self, number: int = 1, *, confirms: bool = False) -> None:
        """Open a channel, if asked with publisher confirms."""
        self.published[number] = 0
        self._confirms.pop(number, None)
        self.call(Channel.Open(), Channel.OpenOk, number)
        if confirms:
            self.call(commands.Confirm.Select(), commands.Confirm.SelectOk, number)

    def close(self) -> None:
        """Close the connection in both directions as the protocol asks; all answers were read."""
        self.call(Connection.Close(200, "done", 0, 0), Connection.CloseOk, 0)
        # First the client: the server leaves it a second for that.
        if isinstance(self.socket, ssl.SSLSocket):
            self.socket = self.socket.unwrap()
        else:
            self.socket.shutdown(socket.SHUT_WR)
        self.expect_end()

    def expect_connection_close(self, code: int) -> Connection.Close:
        """Return the next method, a connection.close with this code; answer it; see the end."""
        close = self.expect(Connection.Close, 0)
        assert close.reply_code == code, f"{close.reply_code} {close.reply_text}"
        self.send(Connection.CloseOk(), 0)
        self.expect_end()
        return close

    def expect_channel_close(self, code: int, channel: int = 1) -> Channel.Close:
        """Return the next method, a channel.close with this code; answer it."""
        close = self.expect(Channel.Close, channel)
        assert close.reply_code == code, f"{close.reply_code} {close.reply_text}"
        self.send(Channel.CloseOk(), channel)
        return close

    # Messages

    def publish(
        self,
        content: bytes,
        routing_key: str,
        exchange: str = "",
        *,
        properties: Basic.Properties = PERSISTENT,
        mandatory: bool = False,
        channel: int = 1,
    ) -> None:
        """Publish one message; with confirms on, the answer is the next frame."""
        method = AnyPublish(0, exchange, routing_key, mandatory)
        self.published[channel] += 1
        self.send_raw(self.publish_octets(method, content, properties, channel))

    def publish_octets(
        self, method: Basic.Publish, content: bytes, properties: Basic.Properties, channel: int = 1
    ) -> bytes:
        """Return the frames of one publish."""
        head = header.ContentHeader(0, len(content), properties)
        size_max = self.frame_max - FRAME_OVERHEAD_BYTES
        parts = [content[at : at + size_max] for at in range(0, len(content), size_max)]
        frames: list[AnyFrame] = [method, head, *map(body.ContentBody, parts)]
        return b"".join(frame.marshal(each, channel) for each in frames)

    def expect_confirmed(self, channel: int = 1) -> None:
        """Return when all that `publish` sent is acknowledged; nothing else may come before.

        The channel must have been in confirm mode from its first publish on.
        """
        while self._confirms[channel].last_tag < self.published[channel]:
            self.expect(Basic.Ack, channel)

    def get(self, queue: str, *, no_ack: bool = True, channel: int = 1) -> Message | None:
        """Take one message with basic.get; None when the queue has none ready."""
        self.send(AnyGet(queue=queue, no_ack=no_ack), channel)
        number, value = self.receive()
        assert number == channel, f"answer on channel {number}"
        if isinstance(value, Basic.GetEmpty):
            return None
        assert isinstance(value, Basic.GetOk), f"expected Basic.GetOk, got {describe(value)}"
        return self.message_of(value, channel)

    def consume(
        self,
        queue: str,
        *,
        prefetch: int = 0,
        no_ack: bool = False,
        arguments: Any = None,  # noqa: ANN401 - a table of any values
        channel: int = 1,
    ) -> None:
        """Begin to consume; deliveries are the next frames."""
        if prefetch:
            self.call(Basic.Qos(prefetch_count=prefetch), Basic.QosOk, channel)
        method = Basic.Consume(queue=queue, no_ack=no_ack, arguments=arguments)
        self.call(method, Basic.ConsumeOk, channel)

    def expect_delivery(self, channel: int = 1) -> Message:
        """Return the next delivery."""
        return self.message_of(self.expect(Basic.Deliver, channel), channel)

    def expect_return(self, channel: int = 1) -> Message:
        """Return the next message that was not routed."""
        return self.message_of(self.expect(Basic.Return, channel), channel)

    def ready_count(self, queue: str, channel: int = 1) -> int:
        """Return how many messages of a queue are ready."""
        declared = self.call(Queue.Declare(queue=queue, passive=True), Queue.DeclareOk, channel)
        assert declared.message_count is not None
        return declared.message_count

    def declare(
        self,
        queue: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Any = None,  # noqa: ANN401 - a table of any values
        channel: int = 1,
    ) -> None:
        """Declare a queue."""
        method = AnyDeclare(0, queue, False, durable, exclusive, auto_delete, False, arguments)
        self.call(method, Queue.DeclareOk, channel)

    def await_connection_close(self) -> Connection.Close:
        """Wait for the server's connection.close, whatever comes before it, and answer it."""
        value: AnyFrame = heartbeat.Heartbeat()
        while not isinstance(value, Connection.Close):
            _, value = self.receive()
        self.send(Connection.CloseOk(), 0)
        self.expect_end()
        return value

    def message_of(
        self, method: Basic.Deliver | Basic.GetOk | Basic.Return, channel: int = 1
    ) -> Message:
        """Return the message of a method that was received; what comes next is its content."""
        number, head = self.receive()
        assert isinstance(head, header.ContentHeader), f"expected a header, got {describe(head)}"
        parts: list[bytes] = []
        missing = head.body_size
        while missing > 0:
            number, part = self.receive()
            assert isinstance(part, body.ContentBody), f"expected a body, got {describe(part)}"
            assert number == channel, f"body on channel {number}"
            parts.append(part.value)
            missing -= len(part)
        assert missing == 0, "more body than the header said"
        return Message(method, head.properties, b"".join(parts))


def connect(
    address: tuple[str, int],
    *,
    over: socket.socket | None = None,
    **options: Any,  # noqa: ANN401
) -> AmqpClient:
    """Return a client that has opened its connection; options as in `AmqpClient.open`."""
    client = AmqpClient(address, over=over)
    try:
        client.open(**options)
    except BaseException:
        client.socket.close()
        raise
    return client


def describe(value: AnyFrame) -> str:
    """Return a frame's name, and its arguments if it is a method."""
    if not isinstance(value, Frame):
        return value.name
    arguments = ", ".join(f"{name}={getattr(value, name)!r}" for name, _ in value)
    return f"{value.name}({arguments})"


def frame_octets(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    """Return any frame at all."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])
