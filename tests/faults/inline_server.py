"""The whole server and its clients in one thread, without sockets: every run is the same.

with InlineServer(path, filesystem, seed=1) as server:
    client = server.connect()
    client.call(Queue.Declare(queue="q", durable=True))
    client.publish(b"1", "q")
    assert client.confirmed == {1}
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

from pamqp import body, frame, header
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm, Connection

from amqp_server.base.config import ServerConfig
from amqp_server.broker.storing.storage_settings import StorageSettings
from amqp_server.connections.client_connection import ClientConnection
from amqp_server.server import Server
from amqp_server.start_and_stop import RunningServer, start
from amqp_server.testing.unsynced_files import UnsyncedFileSystem
from amqp_server.upkeep.checkpointer import CheckpointReport
from appendlog import LogOptions
from appendlog.files.filesystem import FileSystem
from tests.amqp_client import PERSISTENT, PROTOCOL_HEADER, AnyFrame, FrameReader
from tests.faults.inline_loop import InlineFlusher, InlineLoop

SEGMENT_BYTES = 2048


class InlineServer:
    """One server on a loop of its own; as a context manager it is stopped at the end.

    Args:
        storage_path: Data directory.
        filesystem: For all storage rooms; None is one that never waits for the disk.
        seed: Decides the order of things; see `InlineLoop`.
        settings: Fields of `ServerConfig`.

    Attributes:
        server: Its parts; set once it has started.
        was_clean: Whether it stopped cleanly; None before.
    """

    server: Server

    def __init__(
        self,
        storage_path: Path,
        filesystem: FileSystem | None = None,
        seed: int = 0,
        **settings: Any,  # noqa: ANN401 - as the dataclass has them
    ) -> None:
        settings = {
            "offset_checkpoint_interval_seconds": 0,
            "ring_size": 1024,
            "compact_below": 0.9,
            "disk_free_limit_bytes": 0,
            # Its threads would take part in the order of things.
            "audit_files": 0,
            **settings,
        }
        config = ServerConfig(port=0, storage_path=storage_path, **settings)
        self.loop = InlineLoop(seed)
        self.was_clean: bool | None = None
        self.clients: list[InlineClient] = []
        self._start = partial(
            start, config, filesystem or UnsyncedFileSystem(), stopwatch=self.loop.stopwatch
        )
        self._running: RunningServer
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            StartupError: As the server does.
        """
        asyncio.set_event_loop(self.loop)
        for patch in (
            self.loop.clocks(),
            mock.patch("amqp_server.server.Flusher", InlineFlusher),
            # Long work gives way at every step, and not when some time has passed.
            mock.patch("amqp_server.base.time_slice.SLICE_SECONDS", 0),
            # Segments are so small that little is worth while.
            mock.patch("amqp_server.upkeep.compactor.FREED_BYTES_MIN", 1),
            mock.patch.object(StorageSettings, "log_options", _with_small_segments()),
        ):
            self._patches.enter_context(patch)
        try:
            self._running = self.loop.run_until_complete(self._start())
            self.server = self._running.server
        except BaseException:
            self._end()
            raise
        self.settle()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it, if that was not done."""
        if self.was_clean is None:
            self.stop()

    def connect(self) -> InlineClient:
        """Return a client with channel 1 open."""
        client = InlineClient(self)
        self.clients.append(client)
        client.open()
        return client

    def settle(self) -> None:
        """Let the server do all that it can do now."""
        self.loop.settle()

    def checkpoint(self) -> None:
        """Write a round of checkpoints.

        Raises:
            OffsetsError: The disk refused.
        """
        self.loop.run_until_complete(self.server.checkpointer.write_round())
        self.settle()

    def begin_checkpoint(self) -> asyncio.Task[CheckpointReport]:
        """Begin a round of checkpoints while other things go on."""
        return self.loop.create_task(self.server.checkpointer.write_round())

    def stop(self) -> bool:
        """Stop; return whether it was a clean stop."""
        for client in self.clients:
            client.hang_up()
        self.settle()
        try:
            self.was_clean = self.loop.run_until_complete(self._running.stop())
        finally:
            self._end()
        return self.was_clean

    def _end(self) -> None:
        self.was_clean = bool(self.was_clean)
        self._patches.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.settle()
        self.loop.close()
        asyncio.set_event_loop(None)


class InlineClient:
    """A client without a socket. What comes is kept until it is asked for.

    Attributes:
        received: Frames that were not asked for yet, with their channels.
        confirmed: Delivery tags that were acknowledged on the channel in confirm mode.
        refused: Those that were answered with basic.nack.
        published: Messages published on the channel in confirm mode.
        clock: Tells when something came; a test sets it.
        answered_at: When the last frame came that was no confirm.
        confirmed_at: When a delivery tag was acknowledged.
        closed: Method that closed the channel or the connection, if one was.
    """

    def __init__(self, server: InlineServer) -> None:
        self.received: deque[tuple[int, AnyFrame]] = deque()
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self.published = 0
        self.clock: Callable[[], int] = int
        self.answered_at = 0
        self.confirmed_at: dict[int, int] = {}
        self.closed: Channel.Close | Connection.Close | None = None
        self._server = server
        self._reader = FrameReader()
        self._waiting = b""
        self._is_read = True
        self._transport = _Transport(self, server.loop)
        self._connection = ClientConnection(server.server.context)
        server.loop.call_soon(self._connection.connection_made, self._transport)
        server.settle()

    def open(self) -> None:
        """Go through the handshake and open channel 1."""
        self._feed(PROTOCOL_HEADER)
        self._server.settle()
        self.take(Connection.Start)
        self.send(Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"), channel=0)
        self._server.settle()
        tune = self.take(Connection.Tune)
        self.send(Connection.TuneOk(tune.channel_max, tune.frame_max, 0), channel=0)
        self.send(Connection.Open(virtual_host="/"), channel=0)
        self._server.settle()
        self.take(Connection.OpenOk)
        self.open_channel(1)

    def open_channel(self, channel: int, *, confirms: bool = False) -> None:
        """Open a channel, perhaps again."""
        self.closed = None
        assert isinstance(self.call(Channel.Open(), channel), Channel.OpenOk)
        if confirms:
            self.confirmed, self.refused, self.published = set(), set(), 0
            self.confirmed_at = {}
            assert isinstance(self.call(Confirm.Select(), channel), Confirm.SelectOk)

    def send(self, *frames: AnyFrame, channel: int = 1) -> None:
        """Send frames; the server handles them when it is given time."""
        self._feed(b"".join(frame.marshal(each, channel) for each in frames))

    def call(self, method: Frame, channel: int = 1) -> AnyFrame | None:
        """Send a method, let the server work, and return the first frame that came."""
        self.send(method, channel=channel)
        self._server.settle()
        return self.received.popleft()[1] if self.received else None

    def publish(
        self,
        content: bytes,
        routing_key: str,
        exchange: str = "",
        properties: Basic.Properties = PERSISTENT,
        channel: int = 1,
    ) -> int:
        """Send a message; return its number on the channel, from 1."""
        self.published += 1
        self.send(
            Basic.Publish(0, exchange, routing_key),
            header.ContentHeader(0, len(content), properties),
            body.ContentBody(content),
            channel=channel,
        )
        return self.published

    def get(self, queue: str, *, no_ack: bool = False) -> tuple[int, bool, bytes] | None:
        """Return delivery tag, redelivered flag and body of one message; None if there is none."""
        got = self.call(Basic.Get(queue=queue, no_ack=no_ack))
        if not isinstance(got, Basic.GetOk):
            return None
        assert got.delivery_tag is not None
        return got.delivery_tag, bool(got.redelivered), self._take_content()

    def consume_all(self, queue: str, *, no_ack: bool = False) -> list[tuple[int, bool, bytes]]:
        """Return what a consumer is given of a queue now, each as `get` does.

        One round trip for all of them. The consumer stays until the client hangs up.
        """
        self.send(Basic.Consume(queue=queue, no_ack=no_ack))
        self._server.settle()
        self.take(Basic.ConsumeOk)
        given = []
        while self.received:
            each = self.take(Basic.Deliver)
            given.append((each.delivery_tag, bool(each.redelivered), self._take_content()))
        return given

    def _take_content(self) -> bytes:
        head = self.take(header.ContentHeader)
        content = b""
        while len(content) < head.body_size:
            content += self.take(body.ContentBody).value
        return content

    def take(self, kind: type[Any]) -> Any:  # noqa: ANN401 - of that kind
        """Return the next frame, which must be of this kind."""
        _, value = self.received.popleft()
        assert isinstance(value, kind), f"expected {kind.__name__}, got {value}"
        return value

    def hang_up(self) -> None:
        """Let the socket be gone."""
        self._transport.abort()

    # For the transport

    def receive(self, octets: bytes) -> None:
        """Take what the server writes."""
        for channel, value in self._reader.feed(octets):
            if isinstance(value, Basic.Ack | Basic.Nack):
                self._take_confirm(value)
                continue
            self.answered_at = self.clock()
            if isinstance(value, Channel.Close):
                self.closed = value
                self.received.append((channel, value))
                self.send(Channel.CloseOk(), channel=channel)
            elif isinstance(value, Connection.Close):
                self.closed = value
                self.send(Connection.CloseOk(), channel=0)
            else:
                self.received.append((channel, value))

    def be_read(self, is_read: bool) -> None:
        """Hear whether the server reads."""
        self._is_read = is_read
        if is_read and self._waiting:
            self._server.loop.call_soon(self._deliver)

    def lose(self) -> None:
        """Tell the server that the socket is gone."""
        self._connection.connection_lost(None)

    def _take_confirm(self, value: Basic.Ack | Basic.Nack) -> None:
        assert value.delivery_tag is not None
        done = self.confirmed | self.refused
        tags = {value.delivery_tag}
        if value.multiple:
            tags = set(range(1, value.delivery_tag + 1)) - done
        assert not tags & done, "answered twice"
        if isinstance(value, Basic.Nack):
            self.refused |= tags
            return
        self.confirmed |= tags
        self.confirmed_at |= dict.fromkeys(tags, self.clock())

    def _feed(self, octets: bytes) -> None:
        self._waiting += octets
        self._server.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        if not self._is_read or not self._waiting or self._transport.is_closing():
            return
        buffer = self._connection.get_buffer(-1)
        octets, self._waiting = self._waiting[: len(buffer)], self._waiting[len(buffer) :]
        buffer[: len(octets)] = octets
        self._connection.buffer_updated(len(octets))
        if self._waiting:
            self._server.loop.call_soon(self._deliver)


class _Transport(asyncio.Transport):
    """Hands octets to a client in the same thread."""

    def __init__(self, client: InlineClient, loop: InlineLoop) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 5672)})
        self._client = client
        self._loop = loop
        self._is_closing = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Have no buffer."""

    def get_write_buffer_size(self) -> int:
        """Return that nothing waits."""
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Deliver at once."""
        if not self._is_closing:
            self._client.receive(bytes(data))

    def pause_reading(self) -> None:
        """Let the client's octets wait."""
        self._client.be_read(False)

    def resume_reading(self) -> None:
        """Take the client's octets again."""
        self._client.be_read(True)

    def is_closing(self) -> bool:
        """Tell whether it is closed."""
        return self._is_closing

    def write_eof(self) -> None:
        """Let the client close as soon as it has read the end."""
        self.abort()

    def close(self) -> None:
        """Close; nothing waits to be sent."""
        self.abort()

    def abort(self) -> None:
        """Close."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._client.lose)


def _with_small_segments() -> Callable[..., LogOptions]:
    """Return how logs are opened, with segments smaller than an operator may ask for."""
    original = StorageSettings.log_options

    def log_options(*arguments: Any, **named: Any) -> LogOptions:  # noqa: ANN401 - as the original
        return replace(original(*arguments, **named), segment_bytes=SEGMENT_BYTES)

    return log_options
