"""Queues whose messages stay: what was published to each, and what of it was confirmed."""

from __future__ import annotations

from typing import Final

from tests.amqp_client import AmqpClient

_SMALL_BYTES: Final = 100
_FILL_QUEUES: Final = 20
"""Queues that are filled with one wait for confirms."""


class Kept:
    """Many queues; the messages of each have the numbers 0, 1, ...

    Args:
        queues: How many.
        messages: That `fill` puts into each.
        body_bytes: Size of these messages.

    Attributes:
        queues: As given.
    """

    def __init__(self, queues: int, messages: int, body_bytes: int) -> None:
        self.queues = queues
        self._filled = messages
        self._body_bytes = body_bytes
        self._next = [0] * queues
        self._confirmed: list[set[int]] = [set() for _ in range(queues)]

    def fill(self, client: AmqpClient) -> None:
        """Declare the queues, and put messages into them; the channel confirms."""
        for queue in range(self.queues):
            client.declare(_name(queue))
        for first in range(0, self.queues, _FILL_QUEUES):
            some = range(first, min(first + _FILL_QUEUES, self.queues))
            self.publish(client, [queue for queue in some for _ in range(self._filled)])

    def publish(self, client: AmqpClient, queues: list[int]) -> None:
        """Publish a message to each of the queues, and return when all are confirmed."""
        published = []
        for queue in queues:
            number = self._next[queue]
            self._next[queue] += 1
            published.append((queue, number))
            client.publish(self._body(queue, number), _name(queue))
        client.expect_confirmed()
        for queue, number in published:
            self._confirmed[queue].add(number)

    def check(self, client: AmqpClient) -> int:
        """Take everything out of the queues, and return how many messages that was.

        Raises:
            AssertionError: One is lost, there twice, out of order, or was never published.
        """
        for queue in range(self.queues):
            name = _name(queue)
            count = client.ready_count(name)
            client.consume(name, no_ack=True)
            found = []
            for _ in range(count):
                message = client.expect_delivery()
                number = int(message.body.partition(b" ")[0].partition(b":")[2])
                assert message.body == self._body(queue, number), f"{name}: another body"
                found.append(number)
            assert found == sorted(set(found)), f"{name}: disordered or twice: {found}"
            lost = sorted(self._confirmed[queue] - set(found))
            assert not lost, f"{name}: confirmed, and lost: {lost}"
            assert not found or found[-1] < self._next[queue], f"{name}: never published"
        return sum(map(len, self._confirmed))

    def _body(self, queue: int, number: int) -> bytes:
        words = b"%d:%d " % (queue, number)
        size = self._body_bytes if number < self._filled else _SMALL_BYTES
        return words * max(1, size // len(words))


def _name(queue: int) -> str:
    return f"kept-{queue}"
