"""A client connection over a plain blocking socket, for what a benchmark does around its load."""

import socket
import ssl
import struct
import threading
from collections.abc import Sequence
from typing import Final, Self

from bench import handshake, requests
from bench.amqp_frames import (
    BASIC,
    CLOSE_ARGUMENTS,
    EMPTY_TABLE,
    Frame,
    method_frame,
    short_string,
    try_parse_frame,
)
from bench.broker_url import BrokerUrl
from bench.errors import BenchError, UnexpectedFrameError
from bench.requests import Request

CONSUMER_TAG: Final = "bench"
STALL_SECONDS_MAX: Final = 120
"""Longest time for which a broker may not read from a publisher or not answer a request."""

_READ_BYTES: Final = 65_536


class Connection:
    """One connection with one open channel; the end of its `with` closes the socket.

    The socket stays blocking, with a time limit in the kernel (SO_RCVTIMEO): with Python's own
    time limit, each read would cost an extra `poll`.

    Attributes:
        socket: The connected socket; the caller may read and write it between requests.
        channel: Number of the open channel.
        product: Name and version that the broker reports; "" if it reports none.
    """

    def __init__(
        self, url: BrokerUrl, channel: int, *, trust: ssl.SSLContext | None = None
    ) -> None:
        """Connect, log in and open the channel.

        Args:
            url: Address of the broker.
            channel: Number of the channel.
            trust: What TLS needs; None connects without TLS.

        Raises:
            OSError: The broker cannot be reached.
            BenchError: The broker refuses, or does not answer.
        """
        self.channel = channel
        self.product = ""
        self._unread = bytearray()
        self.socket: socket.socket = socket.create_connection(
            (url.host, url.port), timeout=STALL_SECONDS_MAX
        )
        try:
            if trust is not None:
                self.socket = trust.wrap_socket(self.socket, server_hostname=url.host)
            self.socket.settimeout(None)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            limit = struct.pack("@ll", STALL_SECONDS_MAX, 0)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self.limit_read(STALL_SECONDS_MAX)
            self._log_in(url)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def limit_read(self, seconds: float) -> None:
        """Make every read of the socket end with `BlockingIOError` after this time."""
        whole = int(seconds)
        limit = struct.pack("@ll", whole, int((seconds - whole) * 1_000_000))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def read_at_least(self, least_bytes: int) -> None:
        """Make every read of the socket wait for this many bytes, or for its time limit."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)

    def declare_queue(self, queue: str, durable: bool, arguments: bytes = EMPTY_TABLE) -> None:
        """Declare a queue that is neither exclusive nor deleted automatically; see `text_table`."""
        self.ask(requests.declare_queue(self.channel, queue, durable=durable, arguments=arguments))

    def delete_queue(self, queue: str) -> None:
        """Delete a queue with its messages; a queue that does not exist is no error."""
        self.ask(requests.delete_queue(self.channel, queue))

    def count_ready(self, queue: str) -> int:
        """Return how many messages of a queue are ready (declare passive)."""
        answer = self.ask(requests.declare_queue(self.channel, queue, passive=True))
        count: int = struct.unpack_from(">I", answer.payload, 5 + answer.payload[4])[0]
        return count

    def select_confirms(self) -> None:
        """Make the broker confirm the publishes of the channel."""
        self._ask_method(85, 10, b"\0", (85, 11))

    def start_consumer(self, queue: str, prefetch: int, arguments: bytes = EMPTY_TABLE) -> None:
        """Consume a queue; deliveries may arrive together with the answer, see `take_unread`.

        Args:
            queue: Name of the queue.
            prefetch: Most deliveries without an ack at a time; 0 for a consumer without acks.
            arguments: Arguments of `basic.consume`, encoded; see `text_table`.
        """
        if prefetch:
            self._ask_method(BASIC, 10, struct.pack(">IHB", 0, prefetch, 0), (BASIC, 11))
        flags = bytes((0 if prefetch else 2,))
        named = b"\0\0" + short_string(queue) + short_string(CONSUMER_TAG) + flags
        self._ask_method(BASIC, 20, named + arguments, (BASIC, 21))

    def ask(self, request: Request) -> Frame:
        """Send a request and return the answer.

        Raises:
            UnexpectedFrameError: The broker refuses the request.
            BenchError: The broker does not answer.
        """
        self.send(request.octets)
        return self._expect(request.answer)

    def ask_one_by_one(self, requests: Sequence[Request]) -> None:
        """Send each request after the answer to the one before it; raises as `ask`."""
        for request in requests:
            self.ask(request)

    def ask_pipelined(self, requests: Sequence[Request]) -> None:
        """Send all requests at once and read the answers at the same time; raises as `ask`."""
        octets = b"".join(request.octets for request in requests)
        # A broker may stop reading requests until its answers are read: one thread would deadlock.
        sender = threading.Thread(target=self.send, args=(octets,), name="sender")
        sender.start()
        try:
            for request in requests:
                self._expect(request.answer)
        finally:
            sender.join()

    def send(self, octets: bytes) -> None:
        """Send all bytes; waits while the broker reads.

        Raises:
            BenchError: The broker read nothing for STALL_SECONDS_MAX.
        """
        try:
            self.socket.sendall(octets)
        except BlockingIOError:
            raise BenchError(f"the broker read nothing for {STALL_SECONDS_MAX} s") from None

    def receive(self) -> bytes:
        """Return the bytes that have arrived; waits for the first.

        Raises:
            BenchError: Nothing came for STALL_SECONDS_MAX, or the broker closed the connection.
        """
        try:
            received = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            raise BenchError(f"the broker sent nothing for {STALL_SECONDS_MAX} s") from None
        if not received:
            raise BenchError("the broker closed the connection")
        return received

    def take_unread(self) -> bytes:
        """Return the bytes that arrived behind the last answer, and remove them from here."""
        unread = bytes(self._unread)
        self._unread.clear()
        return unread

    def close_channel(self) -> None:
        """Close the channel; the answer comes when the broker has handled all that was sent."""
        self._ask_method(20, 40, CLOSE_ARGUMENTS, (20, 41))

    def close(self) -> None:
        """Close the connection with the protocol's handshake; discards what still arrives."""
        self.limit_read(STALL_SECONDS_MAX)
        self.read_at_least(1)
        self.socket.sendall(handshake.close_connection())
        while self._next_frame().method_id != handshake.CLOSE_OK:
            pass
        self.socket.close()

    def _log_in(self, url: BrokerUrl) -> None:
        self.socket.sendall(handshake.PROTOCOL_HEADER)
        start = self._expect(handshake.START)
        self.product = " ".join(
            filter(None, (_find_text(start.payload, name) for name in ("product", "version")))
        )
        self.socket.sendall(handshake.start_ok(url))
        tune = self._expect(handshake.TUNE)
        self.socket.sendall(handshake.tune_ok(tune) + handshake.open_vhost(url))
        self._expect(handshake.OPEN_OK)
        self.socket.sendall(handshake.open_channel(self.channel))
        self._expect(handshake.CHANNEL_OPEN_OK)

    def _ask_method(
        self, class_id: int, method_id: int, arguments: bytes, answer: tuple[int, int]
    ) -> Frame:
        return self.ask(Request(method_frame(self.channel, class_id, method_id, arguments), answer))

    def _expect(self, method_id: tuple[int, int]) -> Frame:
        answer = self._next_frame()
        if answer.method_id != method_id:
            raise UnexpectedFrameError(answer.describe(), f"method {method_id}")
        return answer

    def _next_frame(self) -> Frame:
        while (parsed := try_parse_frame(self._unread, 0)) is None:
            self._unread += self.receive()
        del self._unread[: parsed.wire_bytes]
        return parsed


def _find_text(properties: bytes, name: str) -> str:
    # Only the report's heading needs server properties: a table parser would be too much.
    key = short_string(name) + b"S"
    start = properties.find(key)
    if start < 0:
        return ""
    size_start = start + len(key)
    size = int.from_bytes(properties[size_start : size_start + 4])
    return properties[size_start + 4 : size_start + 4 + size].decode(errors="replace")
