"""What was published and what came back, flight by flight: the proof that none is lost."""

from array import array
from collections import Counter
from zlib import crc32

from cli.demo.flights import Flight


class Ledger:
    """Counts by the number of the flight, which every message carries as its message id.

    Attributes:
        published: Flights that the publisher has sent.
        by_carrier: The same by carrier.
        received: Deliveries, those of a flight that came before included.
        repeated: Deliveries of a flight that came before.
        unmarked: Those of them that were not marked redelivered: must stay 0.
        damaged: Deliveries whose body is not the one that was published: must stay 0.
    """

    def __init__(self) -> None:
        self.published = 0
        self.by_carrier: Counter[str] = Counter()
        self.received = 0
        self.repeated = 0
        self.unmarked = 0
        self.damaged = 0
        self._checksums = array("L")
        self._has_come = bytearray()

    @property
    def missing(self) -> int:
        """Flights that were published and have never come."""
        return self.published - self.come

    @property
    def come(self) -> int:
        """Flights that have come, each counted once."""
        return self.received - self.repeated

    def note_published(self, flight: Flight) -> None:
        """Remember a flight; flights come in the order of their numbers, from 0."""
        assert flight.number == self.published, "flights are published in order"
        self.published += 1
        self.by_carrier[flight.carrier] += 1
        self._checksums.append(crc32(flight.body))
        self._has_come.append(False)

    def note_received(self, number: int, body: bytes, *, redelivered: bool) -> None:
        """Count a delivery.

        Raises:
            IndexError: No flight has this number.
        """
        self.received += 1
        if self._checksums[number] != crc32(body):
            self.damaged += 1
        if self._has_come[number]:
            self.repeated += 1
            self.unmarked += not redelivered
        self._has_come[number] = True
