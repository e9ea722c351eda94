"""A broker that does nothing: swallows publishes and sends deliveries made beforehand.

What the generator reaches against it is the generator's own bound. It answers just what `bench`
asks, to one client after another.
"""

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from bench.amqp_frames import (
    BASIC,
    BODY,
    CHANNEL_CLOSE,
    FRAME_OVERHEAD_BYTES,
    HEADER,
    Frame,
    frame,
    method_frame,
    short_string,
    try_parse_frame,
)
from bench.broker_url import BrokerUrl
from bench.connection import CONSUMER_TAG
from bench.message_body import BLOCK_PART, FIELDS_BYTES, FIXED_PART

_READ_BYTES: Final = 1 << 20
_LONGEST_METHOD_BYTES: Final = 64
_CONSUME: Final = (BASIC, 20)
_START: Final = struct.pack(">BBI", 0, 9, 0) + struct.pack(">I5sI5s", 5, b"PLAIN", 5, b"en_US")
_ANSWERS: Final = {
    (10, 11): (10, 30, struct.pack(">HIH", 0, 131_072, 0)),
    (10, 40): (10, 41, b"\0"),
    (10, 50): (10, 51, b""),
    (20, 10): (20, 11, bytes(4)),
    CHANNEL_CLOSE: (20, 41, b""),
    (50, 10): (50, 11, short_string("bench") + bytes(8)),
    (50, 40): (50, 41, bytes(4)),
    (BASIC, 10): (BASIC, 11, b""),
    _CONSUME: (BASIC, 21, short_string(CONSUMER_TAG)),
}


class StubBroker:
    """Listens on a free port of the loopback interface until its `with` ends.

    Attributes:
        url: Where it is.
        swallowed_bytes: Bytes of publishes that it has thrown away.
    """

    def __init__(self, deliveries: bytes = b"") -> None:
        """Listen.

        Args:
            deliveries: What each consumer is sent, from `encode_deliveries`.
        """
        self.swallowed_bytes = 0
        self._deliveries = deliveries
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve_all, name="stub-broker")
        port = self._listener.getsockname()[1]
        self.url = BrokerUrl("127.0.0.1", port, "guest", "guest", "/")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Closing alone would leave the thread in its accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve_all(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client:
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        client.recv(8, socket.MSG_WAITALL)
        client.sendall(method_frame(0, 10, 10, _START))
        unread = b""
        while received := client.recv(_READ_BYTES):
            unread += received
            while parsed := try_parse_frame(unread, 0):
                if parsed.method_id == (BASIC, 40):
                    self._swallow(client, len(unread), unread[-_LONGEST_METHOD_BYTES:])
                    unread = b""
                    break
                unread = unread[FRAME_OVERHEAD_BYTES + len(parsed.payload) :]
                self._answer(client, parsed)

    def _answer(self, client: socket.socket, request: Frame) -> None:
        if request.method_id not in _ANSWERS:
            return
        class_id, method_id, arguments = _ANSWERS[request.method_id]
        client.sendall(method_frame(request.channel, class_id, method_id, arguments))
        if request.method_id == _CONSUME:
            client.sendall(self._deliveries)

    def _swallow(self, client: socket.socket, before_bytes: int, tail: bytes) -> None:
        """Throw away what comes, unread, until it ends with a channel.close."""
        self.swallowed_bytes += before_bytes
        buffer = memoryview(bytearray(_READ_BYTES))
        closing = struct.pack(">HBHH", 200, 0, 0, 0)
        close = method_frame(1, *CHANNEL_CLOSE, closing)
        while not tail.endswith(close):
            read_bytes = client.recv_into(buffer)
            if not read_bytes:
                return
            self.swallowed_bytes += read_bytes
            start = max(0, read_bytes - _LONGEST_METHOD_BYTES)
            tail = (tail + bytes(buffer[start:read_bytes]))[-_LONGEST_METHOD_BYTES:]
        self.swallowed_bytes -= len(close)
        self._answer(client, Frame(1, 1, struct.pack(">HH", *CHANNEL_CLOSE)))


def encode_deliveries(
    count: int, block_messages: int, *, channel: int, routing_key: str, body_bytes: int
) -> bytes:
    """Encode what a consumer of one publisher's messages is sent.

    Args:
        count: How many deliveries.
        block_messages: Messages in a block of the publisher.
        channel: The consumer's channel.
        routing_key: Routing key of the messages.
        body_bytes: Size of each body.
    """
    before_tag = short_string(CONSUMER_TAG)
    after_tag = b"\0" + short_string("") + short_string(routing_key)
    header = frame(HEADER, channel, struct.pack(">HHQH", BASIC, 0, body_bytes, 0))
    padding = bytes(body_bytes - FIELDS_BYTES)
    deliveries: list[bytes] = []
    for number in range(count):
        block, index = divmod(number, block_messages)
        arguments = before_tag + struct.pack(">Q", number + 1) + after_tag
        body = FIXED_PART.pack(0, index) + BLOCK_PART.pack(block, 0) + padding
        deliveries += (
            method_frame(channel, BASIC, 60, arguments),
            header,
            frame(BODY, channel, body),
        )
    return b"".join(deliveries)
