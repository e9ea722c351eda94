"""The consumer: takes flights, acknowledges them, and tells the ledger."""

from collections.abc import Callable
from typing import Any, Final

from cli.demo.client import QUEUE, DemoClient
from cli.demo.ledger import Ledger
from cli.demo.progress import Show

PREFETCH: Final = 2000
ACK_EVERY: Final = 200
"""Messages that one acknowledgement answers."""


class FlightConsumer(DemoClient):
    """Consumes a number of messages.

    Args:
        port: Where the broker listens on this machine.
        count: How many messages; None takes what is ready when it begins.
        ledger: Is told of each.
        show: Is told how many have come.
        kill: Called with the last one, before it is acknowledged, instead of a clean end:
            kills the broker.

    Attributes:
        expected: How many messages it takes; known once it has begun.
        received: How many have come.
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
        """Ask how many are ready, then consume."""
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
            # Was on its way when the broker was killed; nobody is left to be answered.
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
