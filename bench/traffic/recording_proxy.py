"""A proxy between a client and a broker that records what the client sends."""

import socket
import threading
from contextlib import suppress
from typing import Final, Self

from bench.amqp_frames import Frame, parse_frames
from bench.broker_url import BrokerUrl

_READ_BYTES: Final = 65_536
_PROTOCOL_HEADER_BYTES: Final = 8


class RecordingProxy:
    """Listens on a free port of the loopback interface until the end of its `with`.

    Args:
        target: The broker.

    Attributes:
        url: Address of the proxy, with the broker's login.
    """

    def __init__(self, target: BrokerUrl) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = BrokerUrl("127.0.0.1", port, target.user, target.password, target.vhost)
        self._recorded: list[bytearray] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept_all)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Only `shutdown` wakes the thread from its `accept`; `close` does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            _hang_up(each)
        for thread in self._threads:
            thread.join()

    def frames(self) -> list[Frame]:
        """Return all frames that clients have sent, connection by connection."""
        return [
            frame
            for octets in self._recorded
            for frame in parse_frames(bytes(octets[_PROTOCOL_HEADER_BYTES:]))
        ]

    def _start(self, function: object, *args: object) -> None:
        thread = threading.Thread(target=function, args=args, name="recording-proxy")  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept_all(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((self._target.host, self._target.port))
                self._sockets += (client, broker)
                recorded = bytearray()
                self._recorded.append(recorded)
                self._start(self._relay, client, broker, recorded)
                self._start(self._relay, broker, client, None)

    @staticmethod
    def _relay(source: socket.socket, target: socket.socket, recorded: bytearray | None) -> None:
        with suppress(OSError):
            while octets := source.recv(_READ_BYTES):
                if recorded is not None:
                    recorded += octets
                target.sendall(octets)
        _hang_up(target)
        source.close()


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
