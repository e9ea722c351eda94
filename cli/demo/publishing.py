"""The publisher: publishes every flight once, persistent, with confirms."""

from collections.abc import Iterator
from typing import Any, Final

import pika

from cli.demo.client import EXCHANGE, QUEUE, DemoClient
from cli.demo.flights import Flight
from cli.demo.ledger import Ledger
from cli.demo.progress import Show

WINDOW: Final = 2000
"""Maximum number of published messages that are not confirmed yet."""
RETAIN_FOR_MS: Final = 86_400_000
"""Time for which the queue keeps settled messages: a day, so that the export finds them."""


class FlightPublisher(DemoClient):
    """Declares exchange and queue and publishes flights until all are confirmed.

    Args:
        port: Port of the broker on this machine.
        flights: Flights in the order of their numbers, from 0; at least one.
        ledger: Records each published flight.
        show: Called with the number of confirmed messages.

    Attributes:
        confirmed: Number of messages that the broker has confirmed.
        refused: Number of messages that the broker has refused.
    """

    def __init__(self, port: int, flights: Iterator[Flight], ledger: Ledger, show: Show) -> None:
        super().__init__(port)
        self.confirmed = 0
        self.refused = 0
        self._flights = flights
        self._ledger = ledger
        self._show = show
        self._is_all_sent = False

    def begin(self) -> None:
        """Declare exchange and queue, then publish."""
        channel = self.channel
        arguments = {"x-retain-for": RETAIN_FOR_MS}
        # The broker replies in order: after the last reply, all methods are done.
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        channel.queue_declare(QUEUE, durable=True, arguments=arguments)
        channel.queue_bind(QUEUE, EXCHANGE, "#")
        channel.confirm_delivery(self._answered, callback=lambda _: self._publish())

    def _publish(self) -> None:
        """Publish until the window is full."""
        while not self._is_all_sent and self._ledger.published - self._answered_count < WINDOW:
            flight = next(self._flights, None)
            if flight is None:
                self._is_all_sent = True
                break
            self._ledger.note_published(flight)
            self.channel.basic_publish(
                EXCHANGE,
                flight.routing_key,
                flight.body,
                pika.BasicProperties(
                    delivery_mode=2,
                    content_type="application/json",
                    message_id=str(flight.number),
                ),
            )
        if self._is_all_sent and self._answered_count == self._ledger.published:
            self.finish()

    @property
    def _answered_count(self) -> int:
        return self.confirmed + self.refused

    def _answered(self, frame: Any) -> None:  # noqa: ANN401 - pika has no types
        """Count an ack or nack; this broker sends them in the order of publishing."""
        self.note_progress()
        answered = frame.method.delivery_tag - self._answered_count
        if frame.method.NAME == "Basic.Ack":
            self.confirmed += answered
        else:
            self.refused += answered
        self._show(self._answered_count)
        self._publish()
