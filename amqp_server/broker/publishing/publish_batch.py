"""A publish batch: neighbouring messages, most of which have a publish frame of their own.

If every message has another routing key, every run would be one message. Messages that go into the
same queues are put together, so that each queue is asked for room, filled and marked once. A run is
a batch with one group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.publishing.publish_targets import PublishTarget
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.steps import Steps

    Group = tuple[PublishTarget, list[bytes]]
    """Neighbours that go the same way, and their target."""

STEP_QUEUES = 1024
"""Queues that one step of sorting messages by queue, or of counting them, looks at."""

SHARING_MIN: Final = 16
"""Queues of a group up to which each gets a list of its own at once: that is faster."""


class PublishBatch:
    """Messages on their way into queues, in the order in which they were published."""

    __slots__ = ("_groups", "_last", "_target")

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._target: PublishTarget | None = None
        self._last: list[bytes] = []

    def add(self, target: PublishTarget, message: bytes) -> None:
        """Put a message behind the others; `target` says where it goes."""
        last, self._target = self._target, target
        if last is None or target.queues != last.queues or not _count_alike(target, last):
            self._last = [message]
            self._groups.append((target, self._last))
        else:
            self._last.append(message)

    def add_known(
        self, pairs: Iterator[tuple[bytes, bytes]], recent: Mapping[bytes, PublishTarget]
    ) -> tuple[bytes, bytes] | None:
        """Put messages behind the others, up to the first one that needs more than known queues.

        Args:
            pairs: Payloads of publish frames and their messages; what is added is taken from it.
            recent: Targets by payload.

        Returns:
            That one, which is taken, too, and not added; None: there is none.
        """
        for pair in pairs:
            target = recent.get(pair[0])
            if (
                target is None
                or not target.is_plain
                or target.routes_version != target.exchange.routes_version
            ):
                return pair
            # As `add`, without the calls for each message: plain targets have no reply keys, and
            # none of them returns anything.
            last, self._target = self._target, target
            if target is last or (
                last is not None
                and last.is_plain
                and target.queues == last.queues
                and target.exchange is last.exchange
            ):
                self._last.append(pair[1])
            else:
                self._last = [pair[1]]
                self._groups.append((target, self._last))
        return None

    def end_group(self) -> None:
        """Make what comes next a group of its own, wherever it goes."""
        self._target = None

    def take(self) -> list[Group]:
        """Return the groups, and remove them from the batch."""
        groups, self._groups, self._target = self._groups, [], None
        return groups


def _count_alike(target: PublishTarget, other: PublishTarget) -> bool:
    """Return whether messages with these targets, of the same queues, may be one group."""
    return (
        target.exchange is other.exchange
        and target.reply_keys == other.reply_keys
        and target.mandatory == other.mandatory
    )


def message_count(groups: Iterable[Group]) -> int:
    """Return how many messages some groups have."""
    return sum(len(messages) for _, messages in groups)


def common_exchange(groups: Sequence[Group]) -> Exchange | None:
    """Return the exchange that all groups were published to; None: there are several."""
    exchange = groups[0][0].exchange
    for target, _ in groups:
        if target.exchange is not exchange:
            return None
    return exchange


def parts_of(groups: Iterable[Group]) -> list[tuple[Sequence[Queue], int]]:
    """Return what went into which queues: the queues of each group and its number of messages."""
    return [(target.queues, len(messages)) for target, messages in groups]


def by_queue(groups: Iterable[Group]) -> Steps[dict[Queue, list[bytes]]]:
    """Return the messages that are for each queue, in order; a thousand queues in each step.

    If a group has many, they share its list until one of them gets more messages.
    """
    queued: dict[Queue, list[bytes]] = {}
    # Queues whose list is that of a group; the others have their own.
    sharing: set[Queue] = set()
    left = STEP_QUEUES
    for target, messages in groups:
        for queue in target.queues:
            known = queued.get(queue)
            if known is None:
                if len(target.queues) > SHARING_MIN:
                    sharing.add(queue)
                    queued[queue] = messages
                else:
                    queued[queue] = messages.copy()
            elif sharing and queue in sharing:
                sharing.remove(queue)
                queued[queue] = known + messages
            else:
                known += messages
            left -= 1
            if not left:
                left = STEP_QUEUES
                yield
    return queued


def may_refuse(queues: Iterable[Queue], *, has_groups: bool = False) -> bool:
    """Return whether some messages may be refused and others accepted.

    Args:
        queues: Queues that they go to.
        has_groups: Whether not all of them go to all of the queues. Then one whose log has failed,
            which refuses all, refuses only those of some groups.
    """
    return any(queue.refuses_when_full or (has_groups and queue.is_failed) for queue in queues)


def look_at_each(queues: Iterable[Queue]) -> bool:
    """Return whether one of the queues looks at each message that it gets."""
    return any(queue.rules is not None for queue in queues)


def pieces_of(groups: Iterable[Group], count_max: int) -> Iterator[list[Group]]:
    """Iterate over parts of a batch, in order.

    A message is alone if one of its queues may refuse it, and a group is if one of its queues
    refuses all: then only what that queue should have got is refused.

    Args:
        groups: The batch; its queues are asked when it is their turn.
        count_max: Most messages of a part, 1 or more.
    """
    piece: list[Group] = []
    room = count_max
    for target, messages in groups:
        size = 1 if may_refuse(target.queues) else count_max
        is_apart = may_refuse(target.queues, has_groups=True)
        at = 0
        while at < len(messages):
            if piece and (is_apart or not room):
                yield piece
                piece, room = [], count_max
            some = messages[at : at + min(size, room)]
            piece.append((target, some))
            at += len(some)
            room = 0 if is_apart else room - len(some)
    if piece:
        yield piece


def count_incoming(groups: Iterable[Group]) -> Steps[None]:
    """Count for each queue what it got of several exchanges, a thousand queues in each step.

    `enqueue_each` got no exchange.
    """
    looked_at = 0
    for target, messages in groups:
        for queue in target.queues:
            if not queue.is_deleted:
                queue.count_incoming(len(messages), target.exchange)
            looked_at += 1
            if looked_at % STEP_QUEUES == 0:
                yield
