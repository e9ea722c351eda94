"""A client connection over a plain blocking socket: what a benchmark needs before and after."""

import socket
import struct
from types import TracebackType
from typing import Final, Self

from bench.amqp_frames import (
    BASIC,
    FRAME_OVERHEAD_BYTES,
    Frame,
    long_string,
    method_frame,
    short_string,
    try_parse_frame,
)
from bench.broker_url import BrokerUrl
from bench.errors import BenchError, UnexpectedFrameError

CONSUMER_TAG: Final = "bench"
STALL_SECONDS_MAX: Final = 30
"""How long a broker may leave a publisher's socket unread, or a request unanswered."""

_READ_BYTES: Final = 65_536
_PROTOCOL_HEADER: Final = b"AMQP\0\0\x09\x01"
_EMPTY_TABLE: Final = struct.pack(">I", 0)


class Connection:
    """One connection with one channel open; closed by `with`.

    The socket stays blocking, with a time limit in the kernel (SO_RCVTIMEO): a limit of Python's
    own would cost a poll for every read.

    Attributes:
        socket: The connected socket; the caller may read and write it between requests.
        channel: Number of the open channel.
        product: Name and version that the broker gives of itself; "" when it gives none.
    """

    def __init__(self, url: BrokerUrl, channel: int) -> None:
        """Connect, log in and open the channel.

        Raises:
            OSError: The broker cannot be reached.
            BenchError: It refused, or does not answer.
        """
        self.channel = channel
        self.product = ""
        self._unread = bytearray()
        self.socket = socket.create_connection((url.host, url.port), timeout=STALL_SECONDS_MAX)
        try:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.socket.close()

    def limit_read(self, seconds: float) -> None:
        """Let every read of the socket give up with `BlockingIOError` after this long."""
        whole = int(seconds)
        limit = struct.pack("@ll", whole, int((seconds - whole) * 1_000_000))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def read_at_least(self, least_bytes: int) -> None:
        """Let every read of the socket wait for this many bytes, or for its time limit."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)

    def declare_queue(self, queue: str, durable: bool, arguments: bytes = _EMPTY_TABLE) -> None:
        """Declare a queue that is neither exclusive nor deleted by itself; see `text_table`."""
        flags = bytes((durable << 1,))
        self._request(50, 10, b"\0\0" + short_string(queue) + flags + arguments, (50, 11))

    def delete_queue(self, queue: str) -> None:
        """Delete a queue with all that is in it; a queue that is not there is deleted too."""
        self._request(50, 40, b"\0\0" + short_string(queue) + b"\0", (50, 41))

    def count_ready(self, queue: str) -> int:
        """Ask how many messages of a queue are ready (declare passive)."""
        arguments = b"\0\0" + short_string(queue) + b"\x01" + _EMPTY_TABLE
        answer = self._request(50, 10, arguments, (50, 11))
        count: int = struct.unpack_from(">I", answer.payload, 5 + answer.payload[4])[0]
        return count

    def select_confirms(self) -> None:
        """Make the channel confirm its publishes."""
        self._request(85, 10, b"\0", (85, 11))

    def start_consumer(self, queue: str, prefetch: int, arguments: bytes = _EMPTY_TABLE) -> None:
        """Consume a queue; deliveries follow the answer at once, see `take_unread`.

        Args:
            queue: Name of the queue.
            prefetch: Most deliveries unacknowledged at a time; 0 for a consumer without acks.
            arguments: Its arguments; see `text_table`.
        """
        if prefetch:
            self._request(BASIC, 10, struct.pack(">IHB", 0, prefetch, 0), (BASIC, 11))
        flags = bytes((0 if prefetch else 2,))
        named = b"\0\0" + short_string(queue) + short_string(CONSUMER_TAG) + flags
        self._request(BASIC, 20, named + arguments, (BASIC, 21))

    def send(self, octets: bytes) -> None:
        """Send all of it, however long the broker takes to read.

        Raises:
            BenchError: It read nothing for STALL_SECONDS_MAX.
        """
        try:
            self.socket.sendall(octets)
        except BlockingIOError:
            raise BenchError(f"the broker read nothing for {STALL_SECONDS_MAX} s") from None

    def receive(self) -> bytes:
        """Read what is there, or wait for it.

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
        """Hand over what came behind the last answer; the connection forgets it."""
        unread = bytes(self._unread)
        self._unread.clear()
        return unread

    def close_channel(self) -> None:
        """Close the channel; the answer comes when the broker has handled all that was sent."""
        self._request(20, 40, struct.pack(">HBHH", 200, 0, 0, 0), (20, 41))

    def close(self) -> None:
        """Close the connection in good order; what is still on its way to us is thrown away."""
        arguments = struct.pack(">HBHH", 200, 0, 0, 0)
        self.limit_read(STALL_SECONDS_MAX)
        self.read_at_least(1)
        self.socket.sendall(method_frame(0, 10, 50, arguments))
        while self._next_frame().method_id != (10, 51):
            pass
        self.socket.close()

    def _log_in(self, url: BrokerUrl) -> None:
        self.socket.sendall(_PROTOCOL_HEADER)
        start = self._expect((10, 10))
        self.product = " ".join(
            filter(None, (_find_text(start.payload, name) for name in ("product", "version")))
        )
        plain = long_string(f"\0{url.user}\0{url.password}".encode())
        login = _EMPTY_TABLE + short_string("PLAIN") + plain + short_string("en_US")
        self.socket.sendall(method_frame(0, 10, 11, login))
        tune = self._expect((10, 30))
        channel_max, frame_bytes_max, _heartbeat = struct.unpack_from(">HIH", tune.payload, 4)
        tune_ok = struct.pack(">HIH", channel_max, frame_bytes_max, 0)
        self.socket.sendall(method_frame(0, 10, 31, tune_ok))
        self.socket.sendall(method_frame(0, 10, 40, short_string(url.vhost) + b"\0\0"))
        self._expect((10, 41))
        self._request(20, 10, b"\0", (20, 11))

    def _request(
        self, class_id: int, method_id: int, arguments: bytes, answer: tuple[int, int]
    ) -> Frame:
        self.socket.sendall(method_frame(self.channel, class_id, method_id, arguments))
        return self._expect(answer)

    def _expect(self, method_id: tuple[int, int]) -> Frame:
        answer = self._next_frame()
        if answer.method_id != method_id:
            raise UnexpectedFrameError(answer.describe(), f"method {method_id}")
        return answer

    def _next_frame(self) -> Frame:
        while (parsed := try_parse_frame(self._unread, 0)) is None:
            self._unread += self.receive()
        del self._unread[: FRAME_OVERHEAD_BYTES + len(parsed.payload)]
        return parsed


def _find_text(properties: bytes, name: str) -> str:
    # Server properties are read for the report's heading only; a table parser would be too much.
    key = short_string(name) + b"S"
    start = properties.find(key)
    if start < 0:
        return ""
    size_start = start + len(key)
    size = int.from_bytes(properties[size_start : size_start + 4])
    return properties[size_start + 4 : size_start + 4 + size].decode(errors="replace")
