"""Dispatch: hand a queue's ready messages to its consumers, in turn and by credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.journal_requests import up_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.consumer import Consumer
    from amqp_server.broker.queue import Queue

RUN_MESSAGES_MAX = 4096
"""Messages given to one consumer at a time."""
RUN_BYTES_MAX = 512 * 1024
"""Message bytes given to one consumer at a time; one larger message goes alone."""


class ConsumerRotation:
    """The consumers of one queue; whoever was served goes to the end of the line."""

    def __init__(self) -> None:
        """Begin without consumers."""
        # A dict, for its order and for leaving the line at once from anywhere in it.
        self._line: dict[Consumer, None] = {}

    def __len__(self) -> int:
        """Return how many consumers there are."""
        return len(self._line)

    def __iter__(self) -> Iterator[Consumer]:
        """Iterate over a copy, so that cancelling while iterating is safe."""
        return iter(tuple(self._line))

    @property
    def has_exclusive(self) -> bool:
        """Whether one of them refuses company."""
        return any(consumer.exclusive for consumer in self._line)

    def add(self, consumer: Consumer) -> None:
        """Put a new consumer at the end of the line."""
        self._line[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer out of the line."""
        del self._line[consumer]

    def serve(self, consumer: Consumer) -> None:
        """Move a consumer that was just served to the end of the line."""
        if len(self._line) > 1:
            del self._line[consumer]
            self._line[consumer] = None


def dispatch(queue: Queue) -> bool:
    """Give each able consumer of `queue` one run.

    With few messages for many consumers everyone gets an equal share; a lone consumer gets
    all its credit allows, up to the run's bounds.

    Returns:
        Whether there is more to do in the next turn (messages and credit are left).
    """
    able = [consumer for consumer in queue.consumers if consumer.credit]
    for served, consumer in enumerate(able):
        count = len(queue.ready)
        if count == 0:
            return False
        # Asked again: consumers of one channel may share its credit.
        credit = consumer.credit
        if credit == 0:
            continue
        share = -(-count // (len(able) - served))
        if not _deliver_run(queue, consumer, min(share, credit, RUN_MESSAGES_MAX)):
            # The messages are being read from the log; the queue is marked when they are here.
            return False
    return bool(able) and len(queue.ready) > 0 and any(consumer.credit for consumer in able)


def _deliver_run(queue: Queue, consumer: Consumer, count: int) -> bool:
    while count > 0:
        ready = queue.ready.peek()
        if ready is None:
            return True
        messages = queue.store.read(ready.start, ready.start + min(count, len(ready)))
        if not messages:
            return False
        messages = up_to(messages, RUN_BYTES_MAX)
        taken = queue.ready.take(len(messages))
        queue.consumers.serve(consumer)
        if taken.redelivered:
            messages = queue.as_delivered(taken.start, messages)
        consumer.deliver(taken.start, messages, redelivered=taken.redelivered)
        if len(messages) < len(ready):
            return True
        # Ranges can be short; one turn a range would starve a long list of them.
        count = min(count - len(messages), consumer.credit)
    return True
