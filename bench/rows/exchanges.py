"""Exchanges of a benchmark, with their bindings; gone afterwards."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import method_frame, short_string
from bench.connection import Connection
from bench.declares import Request, send_one_by_one, send_pipelined

_NO_TABLE: Final = struct.pack(">I", 0)


@dataclass(frozen=True, slots=True)
class Bindings:
    """A transient exchange and what is bound to it.

    Attributes:
        exchange: Its name.
        kind: Its type: fanout, topic, direct.
        keys: Queues that are there, and their binding keys.
    """

    exchange: str
    kind: str
    keys: tuple[tuple[str, str], ...]

    def declare(self, channel: int) -> Request:
        """Ask for the exchange."""
        names = short_string(self.exchange) + short_string(self.kind)
        octets = method_frame(channel, 40, 10, b"\0\0" + names + b"\0" + _NO_TABLE)
        return Request(octets, (40, 11))

    def delete(self, channel: int) -> Request:
        """Ask for it to go, with its bindings."""
        octets = method_frame(channel, 40, 20, b"\0\0" + short_string(self.exchange) + b"\0")
        return Request(octets, (40, 21))

    def bind_all(self, channel: int) -> list[Request]:
        """Ask for all bindings."""
        return [
            Request(
                method_frame(
                    channel,
                    50,
                    20,
                    b"\0\0"
                    + short_string(queue)
                    + short_string(self.exchange)
                    + short_string(key)
                    + b"\0"
                    + _NO_TABLE,
                ),
                (50, 21),
            )
            for queue, key in self.keys
        ]


@contextmanager
def bound_exchange(connection: Connection, bindings: Bindings) -> Iterator[None]:
    """Declare an exchange and bind all to it; delete it at the end.

    Raises:
        BenchError: The broker refused.
    """
    channel = connection.channel
    send_one_by_one(connection, [bindings.delete(channel), bindings.declare(channel)])
    send_pipelined(connection, bindings.bind_all(channel))
    yield
    send_one_by_one(connection, [bindings.delete(channel)])
