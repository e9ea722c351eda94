"""A client's connection that can lose, hold, change and cut what the broker sends."""

from __future__ import annotations

import socket
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.queue import Queue
from amqp_server.connections.client_connection import ClientConnection
from amqp_server.protocol.large_delivery import LargeFrames
from amqp_server.testing.faults.frames import frames_of, has_frames
from amqp_server.testing.faults.taken_back import TakenBack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amqp_server.connections.server_context import ServerContext
    from amqp_server.protocol.large_delivery import Octets
    from amqp_server.testing.faults.frames import Frame

_LINGER: Final = Struct("ii")


class FrameFilter(Protocol):
    """Sees every frame that the broker sends while it is in the list of filters."""

    def take(self, connection: FaultyConnection, frame: Frame) -> Sequence[Frame]:
        """Return the frames to send instead; it may also cut or reset the connection."""


class FaultyConnection(ClientConnection):
    """One client's connection in a test; without filters it does nothing of its own.

    Args:
        server: Server whose broker the client uses.
        filters: Filters of all connections; the event loop changes the list.
    """

    def __init__(self, server: ServerContext, filters: Sequence[FrameFilter]) -> None:
        super().__init__(server)
        self._filters = filters
        self._is_cut = False
        self._before_cut: bytes | None = None

    # What the session sends

    def write(self, octets: Octets) -> None:
        """Send frames; the caller must not change `octets` afterwards."""
        if not self._filters and not self._is_cut:
            super().write(octets)
        elif isinstance(octets, LargeFrames):
            self._send_filtered(b"".join(octets.take(len(octets))))
        else:
            self._send_filtered(bytes(octets))

    def _send_filtered(self, octets: bytes) -> None:
        if self._is_cut:
            return
        if not has_frames(octets):
            super().write(octets)
            return
        passed: list[bytes] = []
        for frame in frames_of(octets):
            passed += [each.octets for each in self._filtered(frame)]
            if self._is_cut:
                break
        if self._before_cut is not None:
            passed.append(self._before_cut)
        if passed and not self._is_aborted:
            super().write(b"".join(passed))
        if self._before_cut is not None:
            self._before_cut = None
            self.close()

    def _filtered(self, frame: Frame) -> Sequence[Frame]:
        frames: Sequence[Frame] = (frame,)
        for each in tuple(self._filters):
            frames = [passed for one in frames for passed in each.take(self, one)]
            if self._is_cut:
                break
        return frames

    # For filters

    def cut(self, octets: bytes) -> None:
        """Send the frames so far, then `octets`, then the end of the stream, and nothing more."""
        self._is_cut = True
        self._before_cut = octets

    def reset(self) -> None:
        """Reset the TCP connection: the client loses also what it has not read yet."""
        self._is_cut = True
        transport = self._transport
        if transport is None or self._is_lost or transport.is_closing():
            return
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _LINGER.pack(1, 0)
        )
        self._abort()

    @property
    def is_open(self) -> bool:
        """Whether a client has logged in and neither side has begun to close."""
        return self._session is not None and self._session.is_open and not self._is_cut

    def resolved_tags(self) -> dict[int, int]:
        """Return the last publish that is confirmed or refused, of each channel with confirms."""
        return {
            channel.number: channel.publishing.confirms.resolved_tag
            for channel in self.channels
            if channel.publishing.confirms is not None
        }

    def consumed(self) -> Iterator[Queue]:
        """Iterate over the queues of the connection's consumers; one may come twice."""
        for channel in self.channels:
            for consumer in channel.consumers.values():
                if isinstance(consumer.queue, Queue):
                    yield consumer.queue

    def queue_of(self, delivery: Frame) -> Queue | None:
        """Return the queue that a delivery comes from; None if its consumer has ended."""
        channel = None if self._session is None else self._session.channels.get(delivery.channel)
        consumer = None if channel is None else channel.consumers.get(delivery.consumer_tag)
        queue = None if consumer is None else consumer.queue
        return queue if isinstance(queue, Queue) else None

    def take_back(self, queue: Queue) -> list[tuple[int, int]]:
        """Take the client's unacked deliveries of a queue away; return their ranges of offsets.

        What the client answers to them later has no effect.
        """
        taken: list[tuple[int, int]] = []
        for channel in self.channels:
            for run in channel.unacked:
                if run.source is queue:
                    taken.append((run.first_offset, run.end_offset))
                    run.source = TakenBack(queue)
        return taken
