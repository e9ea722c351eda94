"""Counters of the octets of one connection."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.counters.vhost_counters import VhostCounters


class OctetCounters:
    """Octets that one connection has received and sent, as AMQP: without those of TLS.

    Attributes:
        connected_ms: When it began, in milliseconds since 1970.
        recv_oct: Octets received.
        recv_cnt: Reads that returned them.
        send_oct: Octets sent.
        send_cnt: Writes that sent them.
    """

    __slots__ = (
        "_counted_received",
        "_counted_sent",
        "connected_ms",
        "recv_cnt",
        "recv_oct",
        "send_cnt",
        "send_oct",
    )

    def __init__(self) -> None:
        self.connected_ms = time.time_ns() // 1_000_000
        self.recv_oct = self.recv_cnt = self.send_oct = self.send_cnt = 0
        self._counted_received = self._counted_sent = 0

    def add_to(self, counters: VhostCounters) -> None:
        """Add what is new since the last call to the counters of the virtual host."""
        counters.recv_oct += self.recv_oct - self._counted_received
        counters.send_oct += self.send_oct - self._counted_sent
        self._counted_received, self._counted_sent = self.recv_oct, self.send_oct
