"""A publish batch: neighbouring messages that each have a publish frame of their own.

If every message has another routing key, every run would be one message. Messages that go into the
same queues are put together, so that each queue is asked for room, filled and marked once.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from amqp_server.broker.publishing.confirms import Barrier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.publishing.publish_targets import PublishTarget
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.steps import Steps

    Group = tuple[PublishTarget, list[bytes]]
    """Neighbours of one exchange that go into the same queues, with the target of the first."""

STEP_QUEUES: Final = 1024
"""Queues that one step of sorting messages by queue, or of making barriers, looks at."""
BARRIERS_MAX: Final = 2048
"""Most barriers of a batch that may be taken apart; one group has as many as queues."""


class PublishBatch:
    """Messages on their way into queues, in the order in which they were published.

    Args:
        flags: The flags octet that all of them have; `HAS_HEADERS` may differ.

    Attributes:
        exchange: Exchange that the first of them was published to; None: there are none.
        has_more_exchanges: Whether another one was published to another exchange.
        has_unroutable: Whether no queue takes some of them.
    """

    __slots__ = (
        "_groups",
        "_last",
        "_queues",
        "exchange",
        "flags",
        "has_more_exchanges",
        "has_unroutable",
    )

    def __init__(self, flags: int) -> None:
        self.flags = flags
        self._groups: list[Group] = []
        self._queues: Sequence[Queue] | None = None
        self._last: list[bytes] = []
        self.exchange: Exchange | None = None
        self.has_more_exchanges = self.has_unroutable = False

    def add(self, target: PublishTarget, message: bytes) -> None:
        """Put a message behind the others."""
        if target.queues == self._queues and target.exchange is self.exchange:
            self._last.append(message)
            return
        if target.exchange is not self.exchange:
            self.has_more_exchanges = self.exchange is not None
            self.exchange = target.exchange
        self._queues, self._last = target.queues, [message]
        self._groups.append((target, self._last))
        if not target.queues:
            self.has_unroutable = True

    def take(self) -> list[Group]:
        """Return the groups, and remove them from the batch."""
        groups, self._groups, self._queues, self.exchange = self._groups, [], None, None
        self.has_more_exchanges = self.has_unroutable = False
        return groups


def by_queue(groups: Iterable[Group], queued: dict[Queue, list[bytes]]) -> None:
    """Add the messages of some groups to those that are for each queue, in order."""
    for target, messages in groups:
        for queue in target.queues:
            known = queued.get(queue)
            if known is None:
                queued[queue] = messages.copy()
            else:
                known += messages


def by_queue_in_steps(groups: Iterable[Group], queued: dict[Queue, list[bytes]]) -> Iterator[None]:
    """Do the same as `by_queue`, a thousand queues in each step.

    Queues share a list until one of them gets more messages.
    """
    # Queues whose list is their own; the others have that of a group.
    own: set[Queue] = set()
    for target, messages in groups:
        for at, queue in enumerate(target.queues, 1):
            known = queued.get(queue)
            if known is None:
                queued[queue] = messages
            elif queue in own:
                known += messages
            else:
                own.add(queue)
                queued[queue] = known + messages
            if at % STEP_QUEUES == 0:
                yield
        yield


def may_refuse(queues: Iterable[Queue]) -> bool:
    """Return whether one of the queues may refuse some messages and accept others."""
    return any(queue.is_failed or queue.refuses_when_full for queue in queues)


def put_into(
    queue: Queue,
    messages: list[bytes],
    flags: int,
    starts: dict[Queue, int],
    exchange: Exchange | None = None,
) -> None:
    """Give a queue its messages at once; a deleted one gets nothing, and a failed one refuses.

    Args:
        queue: Queue that does not refuse messages for being full.
        messages: Messages of all groups for this queue.
        flags: The flags octet that all messages have; `HAS_HEADERS` may differ.
        starts: Gets where the messages begin in the queue.
        exchange: Exchange that a client has published them to; None: no client has.
    """
    if queue.is_deleted:
        return
    if queue.is_failed:
        # Its log failed after `may_refuse` was asked.
        queue.count_and_log_refused(len(messages))
        queue.count_incoming(len(messages), exchange)
        return
    starts[queue] = queue.publish(messages, flags, exchange) - len(messages)


def count_incoming(groups: Iterable[Group]) -> Steps[None]:
    """Count for each queue what it got of several exchanges, a thousand queues in each step.

    `put_into` got no exchange.
    """
    looked_at = 0
    for target, messages in groups:
        for queue in target.queues:
            if not queue.is_deleted:
                queue.count_incoming(len(messages), target.exchange)
            looked_at += 1
            if looked_at % STEP_QUEUES == 0:
                yield


def barrier_count(groups: Iterable[Group]) -> int:
    """Return how many barriers some groups have, if each is confirmed for itself."""
    return sum(len(target.queues) for target, _ in groups)


def barriers_of(
    queued: Mapping[Queue, list[bytes]], starts: Mapping[Queue, int], flags: int
) -> tuple[list[Barrier], list[Queue]]:
    """Return what a batch waits for, and the queues that refused what was for them.

    Args:
        queued: The messages of the batch for each queue.
        starts: Where `put_into` has put them in each queue that took them.
        flags: The flags octet that all messages have; `HAS_HEADERS` may differ.
    """
    barriers: list[Barrier] = []
    refusing: list[Queue] = []
    for queue, messages in queued.items():
        start = starts.get(queue)
        if start is None:
            # It was deleted after the messages were routed, or its log has failed.
            if not queue.is_deleted:
                refusing.append(queue)
            continue
        end = start + len(messages)
        if queue.awaits(end, flags):
            barriers.append(Barrier(queue, start, end))
    return barriers, refusing


def barriers_in_steps(
    queued: Mapping[Queue, list[bytes]], starts: Mapping[Queue, int], flags: int
) -> Steps[tuple[list[Barrier], list[Queue]]]:
    """Do the same as `barriers_of`, a thousand queues in each step."""
    barriers: list[Barrier] = []
    refusing: list[Queue] = []
    each = iter(queued.items())
    while some := dict(islice(each, STEP_QUEUES)):
        of_some, refused = barriers_of(some, starts, flags)
        barriers += of_some
        refusing += refused
        if len(some) == STEP_QUEUES:
            yield
    return barriers, refusing


def parts_of(groups: Iterable[Group]) -> list[tuple[Sequence[Queue], int]]:
    """Return what went into which queues: the queues of each group and its number of messages."""
    return [(target.queues, len(messages)) for target, messages in groups]
