"""Record of the quick demo's orders: what was sent, confirmed and received, number by number."""

from array import array
from collections.abc import Iterator
from typing import Final

import orjson

_ARTICLES: Final = ("bicycle", "kettle", "lamp", "piano", "rucksack", "teapot", "umbrella")


def order_body(number: int) -> bytes:
    """Return the body of an order: a JSON object."""
    order = {
        "order": number,
        "article": _ARTICLES[number % len(_ARTICLES)],
        "pieces": number % 9 + 1,
    }
    return orjson.dumps(order)


class OrderBook:
    """Counts for each order how often it was sent, whether it was confirmed, how often it came.

    Args:
        count: Number of orders; they are numbered from 0.

    Attributes:
        confirmed: Number of orders that the broker has confirmed.
        sent: Number of messages that were sent; an order may be sent again.
        received: Number of deliveries.
        repeated: Number of deliveries of an order that had come before.
        unmarked: Number of deliveries that came again without a mark, though they were not sent
            again: must stay 0.
        damaged: Number of deliveries that are no order that was sent: must stay 0.
    """

    def __init__(self, count: int) -> None:
        self.confirmed = 0
        self.sent = 0
        self.received = 0
        self.repeated = 0
        self.unmarked = 0
        self.damaged = 0
        self._sent = array("L", bytes(count * array("L").itemsize))
        self._first_time = array("L", self._sent)
        self._is_confirmed = bytearray(count)
        self._is_received = bytearray(count)

    @property
    def lost(self) -> int:
        """Number of orders that were confirmed, and have never come."""
        return sum(
            confirmed and not received
            for confirmed, received in zip(self._is_confirmed, self._is_received, strict=True)
        )

    @property
    def sent_again(self) -> int:
        """Number of messages that repeat one that was sent before."""
        return self.sent - sum(1 for times in self._sent if times)

    def unconfirmed(self) -> Iterator[int]:
        """Iterate over the orders that the broker has not confirmed."""
        return (number for number, is_in in enumerate(self._is_confirmed) if not is_in)

    def note_sent(self, number: int) -> None:
        """Count an order as sent."""
        self.sent += 1
        self._sent[number] += 1

    def note_confirmed(self, number: int) -> None:
        """Note that the broker has taken an order."""
        self.confirmed += not self._is_confirmed[number]
        self._is_confirmed[number] = True

    def note_received(self, body: bytes, *, is_redelivered: bool) -> None:
        """Count a delivery.

        Args:
            body: Its body, which says which order it is.
            is_redelivered: Whether it is marked redelivered.
        """
        self.received += 1
        number = _number(body)
        if number is None or number >= len(self._sent) or not self._sent[number]:
            self.damaged += 1
            return
        self.repeated += self._is_received[number]
        self._is_received[number] = True
        if not is_redelivered:
            self._first_time[number] += 1
            self.unmarked += self._first_time[number] > self._sent[number]


def _number(body: bytes) -> int | None:
    """Return which order a body is, octet by octet; None if it is none."""
    try:
        number = orjson.loads(body)["order"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    is_one = isinstance(number, int) and number >= 0 and order_body(number) == body
    return number if is_one else None
