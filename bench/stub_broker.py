"""A broker that does nothing: it discards publishes and sends prepared deliveries.

Against it, the generator reaches its own bound. It answers only the requests that `bench` sends.
"""

import socket
import struct
import threading
from contextlib import suppress
from typing import Final, Self

from bench.amqp_frames import (
    BASIC,
    BODY,
    CHANNEL_CLOSE,
    CLOSE_ARGUMENTS,
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
    """Listens on a free port of the loopback interface until the end of its `with`.

    Args:
        deliveries: Bytes that each consumer gets, from `encode_deliveries`.

    Attributes:
        url: Address of the stub.
        swallowed_bytes: Bytes of publishes that the stub has discarded, for one publisher.
    """

    def __init__(self, deliveries: bytes = b"") -> None:
        self.swallowed_bytes = 0
        self._deliveries = deliveries
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept_all, name="stub-broker")
        port = self._listener.getsockname()[1]
        self.url = BrokerUrl("127.0.0.1", port, "guest", "guest", "/")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Only `shutdown` wakes the thread from its `accept`; `close` does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept_all(self) -> None:
        threads = []
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,), name="stub-client")
                thread.start()
                threads.append(thread)
        for thread in threads:
            thread.join()

    def _serve(self, client: socket.socket) -> None:
        # A client whose test has ended closes its socket, and may not wait for the answer.
        with client, suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._answer_all(client)

    def _answer_all(self, client: socket.socket) -> None:
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
                unread = unread[parsed.wire_bytes :]
                self._answer(client, parsed)

    def _answer(self, client: socket.socket, request: Frame) -> None:
        if request.method_id not in _ANSWERS:
            return
        class_id, method_id, arguments = _ANSWERS[request.method_id]
        client.sendall(method_frame(request.channel, class_id, method_id, arguments))
        if request.method_id == _CONSUME:
            client.sendall(self._deliveries)

    def _swallow(self, client: socket.socket, before_bytes: int, tail: bytes) -> None:
        """Discard all bytes until they end with a channel.close."""
        self.swallowed_bytes += before_bytes
        buffer = memoryview(bytearray(_READ_BYTES))
        close = method_frame(1, *CHANNEL_CLOSE, CLOSE_ARGUMENTS)
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
    """Encode deliveries of one publisher's messages.

    Args:
        count: Number of deliveries.
        block_messages: Messages in a block of the publisher.
        channel: Number of the consumer's channel.
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
