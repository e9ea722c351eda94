"""A client of an attack, which sends much at once and parses as little of the answers as it can."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from bench import handshake
from bench.amqp_frames import (
    BASIC,
    CHANNEL_CLOSE,
    FRAME_OVERHEAD_BYTES,
    HEADER,
    Frame,
    method_frame,
    parse_frames,
    take_frames,
)
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.errors import BenchError, UnexpectedFrameError
from bench.isolation.methods import (
    BODY_FRAME_BYTES_MAX,
    CANCELLED,
    CHANNEL,
    CONSUMED,
    QOS_SET,
    QUEUE_DECLARED,
    cancel,
    consume,
    declare_queue,
    select_confirms,
    set_qos,
)

CONSUMER_TAG: Final = "attack"

_ACK: Final = (BASIC, 80)
_NACK: Final = (BASIC, 120)
_CONFIRMS_SELECTED: Final = (85, 11)
_NOT_FOUND: Final = 404
_LOOK_SECONDS: Final = 0.01
_FRAMES_OF_DELIVERY: Final = 3
_TAG_OFFSET: Final = 7 + 4 + 1 + len(CONSUMER_TAG)
"""Bytes of a delivery before its tag: heads of frame and method, and the consumer tag."""


class Client:
    """One blocking connection with one channel.

    Args:
        url: The broker.
        seconds_max: Longest time without progress of a write, or without an answer.
    """

    def __init__(self, url: BrokerUrl, seconds_max: float) -> None:
        self._connection = Connection(url, CHANNEL)
        self._connection.limit_read(seconds_max)
        limit = struct.pack("@ll", int(seconds_max), 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._seconds_max = seconds_max
        self._unread = bytearray()

    @property
    def socket(self) -> socket.socket:
        """The connected socket."""
        return self._connection.socket

    def send(self, octets: bytes) -> None:
        """Send bytes that the broker does not answer."""
        self._connection.send(octets)

    def ask(self, requests: Sequence[bytes], answer: tuple[int, int]) -> None:
        """Send all requests at once, and wait for their answers.

        Args:
            requests: Frames of methods.
            answer: Class and method number of each answer.

        Raises:
            BenchError: The broker refused a request, or does not answer.
        """
        octets = b"".join(requests)
        # A broker may stop reading requests until its answers are read: one thread would deadlock.
        sender = threading.Thread(target=self.socket.sendall, args=(octets,), daemon=True)
        sender.start()
        left = len(requests)
        while left:
            for frame in self._receive_frames():
                if frame.method_id != answer:
                    raise UnexpectedFrameError(frame.describe(), f"method {answer}")
                left -= 1
        sender.join()

    def publish(self, octets: bytes) -> None:
        """Send messages, and wait until the broker has handled all of them."""
        self.send(octets)
        self.finish()

    def finish(self) -> None:
        """Wait until the broker has handled all that was sent on this channel."""
        self.ask([set_qos(0)], QOS_SET)

    def select_confirms(self) -> None:
        """Make the broker confirm the publishes of the channel."""
        self.ask([select_confirms()], _CONFIRMS_SELECTED)

    def await_confirms(self, count: int) -> None:
        """Wait until the publishes 1 to `count` are confirmed or refused, in any order."""
        floor, above = 0, set[int]()
        while floor + len(above) < count:
            for frame in self._receive_frames():
                if frame.method_id not in (_ACK, _NACK):
                    raise UnexpectedFrameError(frame.describe(), "a confirm")
                number, flags = struct.unpack_from(">QB", frame.payload, 4)
                if flags & 1:
                    floor = max(floor, number)
                    above = {each for each in above if each > floor}
                else:
                    above.add(number)

    def hold(self, queue: str, count: int) -> None:
        """Consume a queue without a prefetch limit, and wait for `count` deliveries.

        The client neither settles nor keeps the deliveries. All must have the same size.

        Raises:
            BenchError: The tag of the last delivery is not `count`: some have another size.
        """
        self.send(set_qos(0) + consume(queue, CONSUMER_TAG))
        head = b""
        while (first := _try_measure_delivery(head)) is None:
            head += self._receive()
        start, size = first
        left = count * size - (len(head) - start)
        last = head
        while left > 0:
            octets = self._receive()
            left -= len(octets)
            last = (last + octets)[-2 * size :] if len(octets) < size else octets
        number = struct.unpack_from(">Q", last, len(last) - size + _TAG_OFFSET)[0]
        if left or number != count:
            raise BenchError(f"delivery {number} of {queue} came last, expected {count}")

    def take_message(self, queue: str, body_bytes: int) -> None:
        """Consume a queue, and wait until its first message, of this size, is read."""
        self.send(consume(queue, CONSUMER_TAG))
        head = b""
        while (start := _try_find_body(head)) is None:
            head += self._receive()
        frames = -(-body_bytes // BODY_FRAME_BYTES_MAX)
        left = body_bytes + frames * FRAME_OVERHEAD_BYTES - (len(head) - start)
        while left > 0:
            left -= len(self._receive())

    def stop_consuming(self) -> None:
        """Cancel the consumer of `hold`; its deliveries stay unsettled."""
        self.ask([cancel(CONSUMER_TAG)], CANCELLED)

    def counts(self, queue: str) -> tuple[int, int]:
        """Return how many ready messages and how many consumers a queue has."""
        self.send(declare_queue(queue, is_passive=True))
        frame = self._receive_one()
        if frame.method_id != QUEUE_DECLARED:
            raise UnexpectedFrameError(frame.describe(), f"method {QUEUE_DECLARED}")
        ready, consumers = struct.unpack_from(">II", frame.payload, 5 + frame.payload[4])
        return ready, consumers

    def is_gone(self, queue: str) -> bool:
        """Return whether no queue has this name, not even another connection's exclusive queue."""
        self.send(declare_queue(queue, is_passive=True))
        frame = self._receive_one()
        if frame.method_id == QUEUE_DECLARED:
            return False
        if frame.method_id != CHANNEL_CLOSE:
            raise UnexpectedFrameError(frame.describe(), f"method {QUEUE_DECLARED}")
        self.send(method_frame(CHANNEL, 20, 41))
        self.ask([handshake.open_channel(CHANNEL)], handshake.CHANNEL_OPEN_OK)
        return int.from_bytes(frame.payload[4:6]) == _NOT_FOUND

    def await_ready(self, queue: str, count: int) -> None:
        """Wait until a queue has this many ready messages."""
        self._wait_until(
            lambda: self.counts(queue)[0] == count, f"{count} ready messages in {queue}"
        )

    def await_no_consumers(self, queue: str) -> None:
        """Wait until a queue has no consumer."""
        self._wait_until(lambda: self.counts(queue)[1] == 0, f"no consumer of {queue}")

    def await_gone(self, queue: str) -> None:
        """Wait until no queue has this name."""
        self._wait_until(lambda: self.is_gone(queue), f"no queue {queue}")

    def close(self) -> None:
        """Close the connection with the protocol's handshake."""
        self.send(handshake.close_connection())
        while all(each.method_id != handshake.CLOSE_OK for each in self._receive_frames()):
            pass
        self.lose()

    def lose(self) -> None:
        """Close the socket without closing the connection first."""
        self.socket.close()

    def _wait_until(self, is_reached: Callable[[], bool], aim: str) -> None:
        deadline = time.monotonic() + self._seconds_max
        while not is_reached():
            if time.monotonic() > deadline:
                raise BenchError(
                    f"the broker did not reach this state in {self._seconds_max} s: {aim}"
                )
            time.sleep(_LOOK_SECONDS)

    def _receive(self) -> bytes:
        try:
            octets = self.socket.recv(1 << 18)
        except BlockingIOError:
            raise BenchError(f"the broker sent nothing for {self._seconds_max} s") from None
        if not octets:
            raise BenchError("the broker closed the connection")
        return octets

    def _receive_frames(self) -> Sequence[Frame]:
        self._unread += self._receive()
        return take_frames(self._unread)

    def _receive_one(self) -> Frame:
        while not (frames := self._receive_frames()):
            pass
        if len(frames) > 1:
            raise UnexpectedFrameError(frames[1].describe(), "one answer")
        return frames[0]


def _try_measure_delivery(octets: bytes) -> tuple[int, int] | None:
    """Return start and size of the first delivery after consume-ok; None if it is incomplete."""
    start, ends = 0, list[int]()
    position = 0
    for frame in parse_frames(octets):
        position += frame.wire_bytes
        if frame.method_id in (QOS_SET, CONSUMED):
            start = position
        elif frame.method_id and not ends and frame.method_id != (BASIC, 60):
            raise UnexpectedFrameError(frame.describe(), "a delivery")
        else:
            ends.append(position)
            if len(ends) == _FRAMES_OF_DELIVERY:
                return start, position - start
    return None


def _try_find_body(octets: bytes) -> int | None:
    """Return the end of the first content header, where the body starts; None without one."""
    position = 0
    for frame in parse_frames(octets):
        position += frame.wire_bytes
        if frame.kind == HEADER:
            return position
    return None
