"""The consumer: receives flights, acknowledges them, and records them in the ledger."""

from collections.abc import Callable
from typing import Any, Final

from cli.demo.client import QUEUE, DemoClient
from cli.demo.ledger import Ledger
from cli.demo.progress import Show

PREFETCH: Final = 2000
ACK_EVERY: Final = 200
"""Number of messages for each acknowledgement."""


class FlightConsumer(DemoClient):
    """Consumes a number of messages.

    Args:
        port: Port of the broker on this machine.
        count: Number of messages; None takes those that are ready at the beginning.
        ledger: Records each delivery.
        show: Called with the number of received messages.
        kill: Kills the broker; called with the last message, before its acknowledgement, in place
            of a clean end.

    Attributes:
        expected: Number of messages to take; known once it has begun.
        received: Number of received messages.
    """

    def __init__(
        self,
        port: int,
        count: int | None,
        ledger: Ledger,
        show: Show,
        kill: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(port)
        self.expected = count or 0
        self.received = 0
        self._count = count
        self._ledger = ledger
        self._show = show
        self._kill = kill

    def begin(self) -> None:
        """Ask for the number of ready messages, then consume."""
        self.channel.basic_qos(prefetch_count=PREFETCH)
        self.channel.queue_declare(QUEUE, passive=True, callback=self._declared)

    def _declared(self, frame: Any) -> None:  # noqa: ANN401 - pika has no types
        if self._count is None:
            self.expected = frame.method.message_count
        if self.expected == 0:
            self.finish()
        else:
            self.channel.basic_consume(QUEUE, self._delivered)

    def _delivered(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:  # noqa: ANN401
        self.note_progress()
        self.received += 1
        self._ledger.note_received(int(properties.message_id), body, redelivered=method.redelivered)
        if self.received > self.expected:
            # It was in transit when the broker was killed, so it cannot be acknowledged.
            return
        self._show(self.received)
        is_last = self.received == self.expected
        if is_last and self._kill is not None:
            self._kill()
            self.expect_loss()
            return
        if is_last or self.received % ACK_EVERY == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if is_last:
            self.finish()
