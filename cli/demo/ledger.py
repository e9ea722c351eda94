"""Record of published and received messages, flight by flight: it proves that none is lost."""

from array import array
from collections import Counter
from zlib import crc32

from cli.demo.flights import Flight


class Ledger:
    """Counters and checksums by flight number, which every message has as its message id.

    Attributes:
        published: Number of flights that the publisher has sent.
        by_carrier: The same number by carrier.
        received: Number of deliveries, with repeated ones.
        repeated: Number of deliveries of a flight that was delivered before.
        unmarked: Number of these that were not marked as redelivered: must stay 0.
        damaged: Number of deliveries whose body differs from the published one: must stay 0.
    """

    def __init__(self) -> None:
        self.published = 0
        self.by_carrier: Counter[str] = Counter()
        self.received = 0
        self.repeated = 0
        self.unmarked = 0
        self.damaged = 0
        self._checksums = array("L")
        self._is_received = bytearray()

    @property
    def missing(self) -> int:
        """Number of flights that were published, but never received."""
        return self.published - self.distinct

    @property
    def distinct(self) -> int:
        """Number of flights that were received, each counted once."""
        return self.received - self.repeated

    def note_published(self, flight: Flight) -> None:
        """Record a published flight; flights come in the order of their numbers, from 0."""
        assert flight.number == self.published, "flights are published in order"
        self.published += 1
        self.by_carrier[flight.carrier] += 1
        self._checksums.append(crc32(flight.body))
        self._is_received.append(False)

    def note_received(self, number: int, body: bytes, *, redelivered: bool) -> None:
        """Count a delivery.

        Raises:
            IndexError: No flight has this number.
        """
        self.received += 1
        if self._checksums[number] != crc32(body):
            self.damaged += 1
        if self._is_received[number]:
            self.repeated += 1
            self.unmarked += not redelivered
        self._is_received[number] = True
