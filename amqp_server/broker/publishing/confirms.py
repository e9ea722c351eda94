"""Publisher confirms of one channel: sent in order, many with one frame.

A publish waits for *barriers*: the durable queues that took it, each with the offset that its
`confirmed_end` must reach (at durability `fsync`: its recovery point). Entries are removed only
from the front, so one `basic.ack(multiple)` confirms everything that became safe since the last
one. The publishes of one entry are confirmed or refused together.

Neighbours that go into different queues are one entry too, a *batch*, with one barrier for each of
its queues, instead of one for each publish. They wait for each other; in their order they nearly
always would. If the log of a queue fails, the entry is taken apart: what that queue did not take is
confirmed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from amqp_server.broker.counters.publish_pair import PublishPair
    from amqp_server.broker.publishing.target_queue import TargetQueue

    Share = tuple[PublishPair, int]
    """Publishes to one exchange, and what counts those of them that are confirmed."""
    Part = tuple[Sequence[TargetQueue], int]
    """What publishes of a batch went into, and how many they are."""


class Barrier:
    """Publishes of one entry are safe once the `confirmed_end` of `queue` is at `end_offset`.

    Their messages in the queue are those from `start_offset` on.
    """

    __slots__ = ("end_offset", "queue", "start_offset")

    def __init__(self, queue: TargetQueue, start_offset: int, end_offset: int) -> None:
        self.queue = queue
        self.start_offset = start_offset
        self.end_offset = end_offset


class Waiting:
    """Publishes that are confirmed or refused together, up to `last_tag`.

    Attributes:
        last_tag: Delivery tag of the last one.
        barriers: What they wait for.
        refused: Whether they are refused, whatever becomes of the barriers.
        counters: Counts those that are confirmed; None: they are not counted.
        shares: Instead, of publishes to several exchanges: how many each counter counts, in order.
        parts: Of a batch: what each part went into, in order, and how many publishes it has.
        reached_count: Barriers that were seen to be reached; they stay reached.
    """

    __slots__ = (
        "barriers",
        "counters",
        "last_tag",
        "parts",
        "reached_count",
        "refused",
        "shares",
    )

    def __init__(
        self,
        last_tag: int,
        barriers: Sequence[Barrier],
        refused: bool,
        counters: PublishPair | None,
        shares: Sequence[Share],
        parts: Sequence[Part] = (),
    ) -> None:
        self.last_tag = last_tag
        self.barriers = barriers
        self.refused = refused
        self.counters = counters
        self.shares = shares
        self.parts = parts
        self.reached_count = 0

    @property
    def is_known(self) -> bool:
        """Whether each barrier is reached, or its log has failed: then they are refused.

        Looks again only at barriers that were not reached: one message may wait for thousands of
        queues, and each of them asks when it makes progress.
        """
        barriers = self.barriers
        while self.reached_count < len(barriers):
            barrier = barriers[self.reached_count]
            if barrier.queue.confirmed_end < barrier.end_offset:
                if not barrier.queue.is_failed:
                    return False
                self.refused = True
            self.reached_count += 1
        return True


class ConfirmResult(NamedTuple):
    """Result of all publishes up to `last_tag` that have none yet: confirmed or refused."""

    last_tag: int
    refused: bool


class PublisherConfirms:
    """Numbers publishes from 1 and decides which may be confirmed or refused.

    Attributes:
        last_tag: Delivery tag of the last publish.
        resolved_tag: Last delivery tag whose result `release` has returned.
        waiting: Entries whose results are not known or not released; to look at, not to change.
    """

    def __init__(self) -> None:
        self.last_tag = 0
        self.resolved_tag = 0
        self.waiting: deque[Waiting] = deque()

    def __len__(self) -> int:
        """Return the number of waiting entries; a batch of publishes is one entry."""
        return len(self.waiting)

    def add(
        self,
        count: int,
        barriers: Sequence[Barrier],
        *,
        refused: bool = False,
        counters: PublishPair | None = None,
        shares: Sequence[Share] = (),
    ) -> None:
        """Add `count` publishes, which wait for all `barriers` or are refused.

        Args:
            count: Publishes, 1 or more.
            barriers: What they wait for.
            refused: Whether they are refused, when all barriers are reached.
            counters: Counts those that are confirmed; None: they are not counted.
            shares: Count them instead, if they were published to several exchanges.
        """
        assert count > 0, "an answer to no publish would be one to all"
        self.last_tag += count
        if not barriers and not shares and self.waiting:
            last = self.waiting[-1]
            if (
                not (last.barriers or last.shares)
                and last.refused == refused
                and last.counters is counters
            ):
                last.last_tag = self.last_tag
                return
        self.waiting.append(Waiting(self.last_tag, barriers, refused, counters, shares))

    def add_batch(
        self,
        parts: Sequence[tuple[Sequence[TargetQueue], int]],
        barriers: Sequence[Barrier],
        refusing: Collection[TargetQueue] = (),
        counters: PublishPair | None = None,
        shares: Sequence[Share] = (),
    ) -> None:
        """Add neighbours that went into different queues.

        Args:
            parts: The queues of each part and how many publishes it has, in order.
            barriers: One for each queue that some of them wait for: from where their messages
                begin in it to where they end.
            refusing: Queues that did not take what was for them, because their logs have failed.
            counters: As in `add`.
            shares: As in `add`, one for each part.
        """
        count = sum([count for _, count in parts])
        assert count > 0, "an answer to no publish would be one to all"
        self.last_tag += count
        entry = Waiting(self.last_tag, barriers, False, counters, shares, parts)
        if refusing:
            self.waiting.extend(_split(entry, refusing))
        else:
            self.waiting.append(entry)

    def refuse(self, queue: TargetQueue) -> list[int]:
        """Refuse publishes that wait for a failed log, and remove their messages from its queue.

        The removal happens at once. The nack may come later, when the other queues have the message
        or refuse it as well. By then the failed log may work again and use the same offsets for
        other messages.

        Returns:
            The last delivery tags of the refused entries.
        """
        self._split_batches(queue)
        tags: list[int] = []
        for entry in self.waiting:
            for barrier in entry.barriers:
                if barrier.queue is queue and queue.confirmed_end < barrier.end_offset:
                    queue.withdraw(barrier.start_offset, barrier.end_offset)
                    entry.refused = True
                    # The other queues may still fail too. The publisher repeats the message without
                    # those queues that have it, so their result has to be known first.
                    entry.barriers = [each for each in entry.barriers if each.queue is not queue]
                    entry.reached_count = 0
                    tags.append(entry.last_tag)
                    break
        return tags

    def release(self) -> list[ConfirmResult]:
        """Remove and return the results that are known now, in order, equal neighbours merged."""
        results: list[ConfirmResult] = []
        while self.waiting and self.waiting[0].is_known:
            entry = self.waiting.popleft()
            refused = entry.refused
            if refused and entry.parts:
                self.waiting.extendleft(reversed(list(_split(entry))))
                continue
            if not refused:
                count = entry.last_tag - self.resolved_tag
                if entry.shares:
                    for counters, share in entry.shares:
                        counters.count_confirmed(share)
                elif entry.counters is not None:
                    entry.counters.count_confirmed(count)
            self.resolved_tag = entry.last_tag
            if results and results[-1].refused == refused:
                results[-1] = ConfirmResult(entry.last_tag, refused)
            else:
                results.append(ConfirmResult(entry.last_tag, refused))
        return results

    def _split_batches(self, queue: TargetQueue) -> None:
        """Make an entry of each part of the batches that wait for `queue`, whose log has failed."""
        if any(entry.parts and _waits_for(entry, queue) for entry in self.waiting):
            self.waiting = deque(
                [
                    each
                    for entry in self.waiting
                    for each in (
                        _split(entry) if entry.parts and _waits_for(entry, queue) else (entry,)
                    )
                ]
            )


def _waits_for(entry: Waiting, queue: TargetQueue) -> bool:
    """Return whether the confirmed end of a queue has not reached the barrier of an entry."""
    return any(
        barrier.queue is queue and queue.confirmed_end < barrier.end_offset
        for barrier in entry.barriers
    )


def _split(batch: Waiting, refusing: Collection[TargetQueue] = ()) -> Iterator[Waiting]:
    """Iterate over the parts of a batch as entries of their own.

    Args:
        batch: Entry of a batch.
        refusing: Queues that did not take what was for them.
    """
    without = set(refusing)
    ends = {barrier.queue: barrier.start_offset for barrier in batch.barriers}
    last_tag = batch.last_tag - sum(count for _, count in batch.parts)
    for number, (queues, count) in enumerate(batch.parts):
        last_tag += count
        barriers: list[Barrier] = []
        for queue in queues:
            start = ends.get(queue)
            if start is not None:
                ends[queue] = start + count
                barriers.append(Barrier(queue, start, start + count))
        yield Waiting(
            last_tag,
            barriers,
            not without.isdisjoint(queues),
            counters=batch.counters,
            shares=batch.shares[number : number + 1],
        )
