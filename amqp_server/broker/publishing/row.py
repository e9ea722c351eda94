"""A row: messages of several publish frames that come one behind the other.

Where every message has a routing key of its own, every run is one message. What goes into the
same queues is put together, so that each queue is asked for room, filled and marked once a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.publishing.confirms import Barrier
from amqp_server.broker.publishing.enqueue import is_awaited

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from amqp_server.broker.publishing.publish_targets import PublishTarget
    from amqp_server.broker.queue import Queue


class Row:
    """Messages on their way into queues, in the order in which they were published.

    Args:
        flags: The flags octet that all of them have.

    Attributes:
        groups: Neighbours that go into the same queues, with the target of the first.
    """

    def __init__(self, flags: int) -> None:
        """Begin with no messages."""
        self.flags = flags
        self.groups: list[tuple[PublishTarget, list[bytes]]] = []
        self._queues: Sequence[Queue] | None = None
        self._messages: list[bytes] = []

    def add(self, target: PublishTarget, messages: list[bytes]) -> None:
        """Put messages behind the others; the list is given away."""
        if target.queues == self._queues:
            self._messages += messages
        else:
            self._queues, self._messages = target.queues, messages
            self.groups.append((target, messages))

    def enqueue(self) -> Mapping[Queue, int] | None:
        """Give each queue all that is for it, in order, at once.

        Returns:
            Where the messages of this row begin in each queue. None, and nothing was done, if
            one of the queues may refuse some of them: then each group must be looked at.
        """
        queued: dict[Queue, list[bytes]] = {}
        for target, messages in self.groups:
            for queue in target.queues:
                known = queued.get(queue)
                if known is None:
                    queued[queue] = [*messages]
                else:
                    known += messages
        if any(queue.store.is_failed or queue.refuses_when_full for queue in queued):
            return None
        flags = self.flags
        return {
            queue: queue.publish(messages, flags) - len(messages)
            for queue, messages in queued.items()
        }

    def barriers(self, starts: Mapping[Queue, int]) -> Iterator[tuple[int, list[Barrier]]]:
        """Iterate over the groups: how many messages, and what they wait for.

        Args:
            starts: What `enqueue` returned.
        """
        ends = dict(starts)
        for target, messages in self.groups:
            for queue in target.queues:
                ends[queue] += len(messages)
            yield (
                len(messages),
                [
                    Barrier(queue, ends[queue])
                    for queue in target.queues
                    if is_awaited(queue, ends[queue], self.flags)
                ],
            )
