"""A row: neighbouring messages that each have a publish frame of their own.

Where every message has a routing key of its own, every run would be one message. What goes into
the same queues is put together, so that each queue is asked for room, filled and marked once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.publishing.confirms import Barrier
from amqp_server.broker.publishing.enqueue import is_awaited

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from amqp_server.broker.publishing.publish_targets import PublishTarget
    from amqp_server.broker.queue import Queue

    Group = tuple[PublishTarget, list[bytes]]
    """Neighbours that go into the same queues, with the target of the first."""


class Row:
    """Messages on their way into queues, in the order in which they were published.

    Args:
        flags: The flags octet that all of them have.
    """

    __slots__ = ("_groups", "_last", "_queues", "flags")

    def __init__(self, flags: int) -> None:
        self.flags = flags
        self._groups: list[Group] = []
        self._queues: Sequence[Queue] | None = None
        self._last: list[bytes] = []

    def add(self, target: PublishTarget, message: bytes) -> None:
        """Put a message behind the others."""
        if target.queues == self._queues:
            self._last.append(message)
        else:
            self._queues, self._last = target.queues, [message]
            self._groups.append((target, self._last))

    def take(self) -> list[Group]:
        """Return the groups, and begin anew without messages."""
        groups, self._groups, self._queues = self._groups, [], None
        return groups


def enqueue_groups(groups: Sequence[Group], flags: int) -> Mapping[Queue, int] | None:
    """Give each queue all messages of some groups that are for it, in order, at once.

    Args:
        groups: In the order in which they were published.
        flags: The flags octet that all messages have.

    Returns:
        Where the messages begin in each queue. None, and nothing was done, if one of the queues
        may refuse some of them: then each group must be looked at by itself.
    """
    queued: dict[Queue, list[bytes]] = {}
    for target, messages in groups:
        for queue in target.queues:
            known = queued.get(queue)
            if known is None:
                queued[queue] = messages.copy()
            else:
                known += messages
    if any(queue.store.is_failed or queue.refuses_when_full for queue in queued):
        return None
    return {
        queue: queue.publish(messages, flags) - len(messages)
        for queue, messages in queued.items()
        if not queue.is_deleted
    }


def fan_out(groups: Sequence[Group], flags: int, starts: dict[Queue, int]) -> Iterator[None]:
    """Do as `enqueue_groups` for many queues, a queue in each step.

    A queue that is deleted between two steps gets nothing.

    Args:
        groups: In the order in which they were published; none of their queues refuses any.
        flags: The flags octet that all messages have.
        starts: Gets where the messages begin in each queue.
    """
    queued: dict[Queue, list[bytes]] = {}
    for target, messages in groups:
        for queue in target.queues:
            known = queued.get(queue)
            if known is None:
                queued[queue] = messages.copy()
            else:
                known += messages
            yield
    for queue, messages in queued.items():
        if not queue.is_deleted:
            starts[queue] = queue.publish(messages, flags) - len(messages)
        yield


def barriers_of(
    groups: Sequence[Group], starts: Mapping[Queue, int], flags: int
) -> Iterator[tuple[int, list[Barrier]]]:
    """Iterate over groups that are in their queues: how many messages, and what they wait for.

    Args:
        groups: What `enqueue_groups` took.
        starts: What it returned.
        flags: The flags octet that all messages have.
    """
    ends = dict(starts)
    for target, messages in groups:
        barriers: list[Barrier] = []
        for queue in target.queues:
            start = ends.get(queue)
            if start is None:
                # It was deleted after the messages were routed.
                continue
            end = ends[queue] = start + len(messages)
            if is_awaited(queue, end, flags):
                barriers.append(Barrier(queue, end))
        yield len(messages), barriers
