"""Counts the deliveries of one consumer by their bytes, checks them, and acknowledges them."""

import time
from array import array
from typing import Final, Protocol

from bench.amqp_frames import acknowledge
from bench.connection import Connection
from bench.delivery_layout import DeliveryLayout
from bench.errors import BenchError, BrokenRhythmError
from bench.single_acks import SingleAcks

CONSUME_CHANNEL: Final = 7
"""Differs from the publisher's channel, so that no broker can forward frames unchanged."""


class DeliveryCheck(Protocol):
    """Checks the deliveries of each read."""

    def check(self, layout: DeliveryLayout, deliveries: memoryview, received: int) -> None:
        """Check deliveries, or record which messages they have.

        Args:
            layout: Places of the fields in each delivery.
            deliveries: Complete deliveries, at least one.
            received: Deliveries of this consumer before them.

        Raises:
            BrokenRhythmError: A message was lost, repeated or out of order.
        """


class LastInOrder:
    """Checks one delivery of each read in full, for a queue with one publisher and one consumer.

    Its messages must arrive in order. A message that is lost or repeated therefore shifts all
    messages after it, and the next check fails.

    Args:
        block_messages: Messages in a block of the publisher.
    """

    def __init__(self, block_messages: int) -> None:
        self._block_messages = block_messages

    def check(self, layout: DeliveryLayout, deliveries: memoryview, received: int) -> None:
        """Check the last delivery; as `DeliveryCheck`."""
        last = len(deliveries) - layout.delivery_bytes
        place = received + last // layout.delivery_bytes
        layout.check(deliveries, last, place, self._block_messages)


class AllTimed:
    """Checks the number of every message and keeps its latency; one publisher, one consumer.

    Args:
        block_messages: Messages in a block of the publisher.

    Attributes:
        latencies_ns: Time from each message's stamp to its read.
    """

    def __init__(self, block_messages: int) -> None:
        self.latencies_ns: array[int] = array("q")
        self._block_messages = block_messages

    def check(self, layout: DeliveryLayout, deliveries: memoryview, received: int) -> None:
        """Check all deliveries; as `DeliveryCheck`."""
        now_ns = time.monotonic_ns()
        block_messages = self._block_messages
        place = received
        for _, index, block, stamp_ns in layout.read_fields(deliveries):
            if block * block_messages + index != place:
                raise BrokenRhythmError(place, f"block {block}, index {index}")
            self.latencies_ns.append(now_ns - stamp_ns)
            place += 1


class SeenMessages:
    """Marks every message with a byte, for several publishers and consumers of one queue.

    Its messages arrive in any order at each consumer; the marks still count losses exactly.

    Args:
        publishers: Number of publishers.
        block_messages: Messages in a block of each publisher.
    """

    def __init__(self, publishers: int, block_messages: int) -> None:
        self._block_messages = block_messages
        self._seen = [bytearray() for _ in range(publishers)]

    def check(self, layout: DeliveryLayout, deliveries: memoryview, received: int) -> None:
        """Mark all messages; raises BrokenRhythmError if a publisher's number does not exist."""
        seen = self._seen
        block_messages = self._block_messages
        for publisher, index, block, _ in layout.read_fields(deliveries):
            number = block * block_messages + index
            try:
                seen[publisher][number] = 1
            except IndexError:
                if publisher >= len(seen):
                    raise BrokenRhythmError(number, f"of publisher {publisher}") from None
                missing = number + 1 - len(seen[publisher])
                seen[publisher].extend(bytes(missing + 100 * block_messages))
                seen[publisher][number] = 1

    def count(self) -> int:
        """Return the number of distinct messages."""
        return sum(each.count(1) for each in self._seen)


class DeliveryCounter:
    """One consumer: its connection, its count, and the incomplete delivery behind its last read.

    Args:
        connection: Connection whose consumer has started, without outstanding requests.
        prefetch: Most deliveries without an ack; 0 to consume without acks.
        ack_every: Deliveries for each ack; 1 for an ack of each delivery by itself.
        check: Checks the deliveries of each read.
        buffer_bytes: Most bytes of one read.

    Attributes:
        connection: The same connection.
        received: Complete deliveries so far.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        prefetch: int,
        ack_every: int,
        check: DeliveryCheck,
        buffer_bytes: int,
    ) -> None:
        self.connection = connection
        self.received = 0
        self._prefetch = prefetch
        self._ack_every = ack_every
        self._single_acks = SingleAcks(CONSUME_CHANNEL) if prefetch and ack_every == 1 else None
        self._check = check
        self._layout: DeliveryLayout | None = None
        self._acked = 0
        self._buffer = memoryview(bytearray(buffer_bytes))
        unread = connection.take_unread()
        self._buffer[: len(unread)] = unread
        self._filled = len(unread)

    def read(self) -> int:
        """Read the socket once, and return the number of complete deliveries.

        Raises:
            BrokenRhythmError: A message was lost, repeated or out of order.
            BenchError: The broker closed the connection, or sent something unexpected.
        """
        try:
            read_bytes = self.connection.socket.recv_into(self._buffer[self._filled :])
        except BlockingIOError:
            read_bytes = 0
        else:
            if not read_bytes:
                raise BenchError("the broker closed the connection")
        self._filled += read_bytes
        return self.count()

    def count(self) -> int:
        """Count, check and acknowledge the complete deliveries of the buffer; raises as `read`."""
        if self._layout is None:
            self._layout = DeliveryLayout.try_learn(self._buffer[: self._filled])
        if self._layout is None:
            return 0
        count = self._filled // self._layout.delivery_bytes
        if not count:
            return 0
        end = count * self._layout.delivery_bytes
        self._check.check(self._layout, self._buffer[:end], self.received)
        rest = self._filled - end
        self._buffer[:rest] = self._buffer[end : self._filled]
        self._filled = rest
        self.received += count
        if self._prefetch and self.received - self._acked >= self._ack_every:
            self._acknowledge()
        return count

    def finish(self) -> None:
        """Acknowledge the rest and close the connection.

        Raises:
            BrokenRhythmError: The last delivery is incomplete.
            BenchError: The broker does not answer.
        """
        if self._filled:
            raise BrokenRhythmError(self.received, f"{self._filled} bytes of a delivery at the end")
        self.connection.socket.setblocking(True)
        if self._prefetch and self.received > self._acked:
            self._acknowledge()
        self.connection.close()

    def _acknowledge(self) -> None:
        # At most `prefetch` acks: a socket always has room for them, even a non-blocking one.
        if self._single_acks:
            acks = self._single_acks.encode(self._acked + 1, self.received + 1)
        else:
            acks = acknowledge(CONSUME_CHANNEL, self.received)
        self._acked = self.received
        self.connection.socket.sendall(acks)
