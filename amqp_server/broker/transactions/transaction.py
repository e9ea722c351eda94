"""What a transactional channel defers until `tx.commit`: its publishes, acks and rejects.

A publish is checked and routed at once; the queues get it at the commit. An acknowledged delivery
is not outstanding for the client any more: it may not acknowledge it again. But it keeps its credit
and its place until the commit. A rollback makes it outstanding again.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.consuming.unacked import STEP_RUNS
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.methods import BasicPublish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amqp_server.base.limits import Limits
    from amqp_server.broker.consuming.unacked import UnackedRun, UnackedRuns
    from amqp_server.broker.publishing.publish_targets import PublishTarget
    from amqp_server.broker.queue import Queue

RUN_BYTES = 256
"""Memory of a run of publishes beside its messages, in bytes."""
MESSAGE_BYTES = 64
"""Memory of a message or reply key beside its octets, in bytes."""
QUEUE_BYTES = 8
"""Memory of one queue in a sequence of queues, in bytes."""


class Outcome(Enum):
    """What the client wants to happen to a delivery."""

    ACKNOWLEDGED = auto()
    REJECTED = auto()
    REQUEUED = auto()


class DeferredPublish(NamedTuple):
    """Messages that were published alike, and the queues that get them at the commit."""

    target: PublishTarget
    queues: Sequence[Queue]
    reply_keys: Sequence[str]
    messages: list[bytes]
    flags: int


class DeferredOutcome(NamedTuple):
    """Deliveries with the same outcome, as many as one step handles."""

    outcome: Outcome
    runs: list[UnackedRun]


class TransactionBudget:
    """Limits the bytes of uncommitted publishes of all connections together.

    Args:
        limits: Limits for all channels together and for one channel.
    """

    def __init__(self, limits: Limits) -> None:
        self.held_bytes = 0
        self._bytes_max = limits.transaction_bytes_max
        self._channel_bytes_max = limits.transaction_bytes_per_channel_max

    def take(self, count: int, channel_bytes: int) -> None:
        """Add bytes to what the transactions hold.

        Args:
            count: Bytes to add.
            channel_bytes: Bytes that the channel's transaction holds already.

        Raises:
            PreconditionFailed: A limit would be exceeded.
        """
        if channel_bytes + count > self._channel_bytes_max:
            raise PreconditionFailed(
                f"transaction is larger than configured max size {self._channel_bytes_max}",
                *BasicPublish.ids,
            )
        if self.held_bytes + count > self._bytes_max:
            raise PreconditionFailed(
                f"transactions of all connections hold {self.held_bytes} bytes, "
                f"at most {self._bytes_max} are allowed",
                *BasicPublish.ids,
            )
        self.held_bytes += count

    def release(self, count: int) -> None:
        """Subtract bytes from what the transactions hold."""
        self.held_bytes -= count


class Transaction:
    """The current transaction of a channel; another one follows each commit or rollback.

    What it defers may be millions of messages and deliveries. So these lie in pieces, and whoever
    takes them frees one piece after the other.

    Args:
        unacked: Outstanding deliveries of the channel.
        budget: Limit that all transactions share.

    Attributes:
        publishes: Deferred publishes, in order.
        outcomes: Deferred acks and rejects, in order.
        message_count: Messages of the deferred publishes.
        answer_count: Deliveries with a deferred outcome.
    """

    def __init__(self, unacked: UnackedRuns, budget: TransactionBudget) -> None:
        self.publishes: deque[DeferredPublish] = deque()
        self.outcomes: deque[DeferredOutcome] = deque()
        self.message_count = self.answer_count = 0
        self._unacked = unacked
        self._budget = budget
        self._held_bytes = 0
        # The sequences of queues that `publishes` holds, by identity: each is counted once.
        self._counted: set[int] = set()

    def publish(self, deferred: DeferredPublish) -> None:
        """Defer messages that have been routed.

        Raises:
            PreconditionFailed: The limits of transactions would be exceeded.
        """
        size = RUN_BYTES
        for octets in (deferred.messages, deferred.reply_keys):
            size += sum(map(len, octets)) + MESSAGE_BYTES * len(octets)
        last = self.publishes[-1] if self.publishes else None
        if last is not None and last.queues == deferred.queues:
            # A message that is routed singly comes with a sequence of its own.
            deferred = deferred._replace(queues=last.queues)
        elif id(deferred.queues) not in self._counted:
            size += QUEUE_BYTES * len(deferred.queues)
        self._budget.take(size, self._held_bytes)
        self._held_bytes += size
        self._counted.add(id(deferred.queues))
        self.publishes.append(deferred)
        self.message_count += len(deferred.messages)

    def defer(self, outcome: Outcome, runs: list[UnackedRun]) -> None:
        """Defer an outcome of deliveries; they stay counted as outstanding."""
        self._unacked.keep_counting(runs)
        self.answer_count += sum(run.count for run in runs)
        for at in range(0, len(runs), STEP_RUNS):
            piece = runs[at : at + STEP_RUNS]
            last = self.outcomes[-1] if self.outcomes else None
            if last is not None and last.outcome is outcome and len(last.runs) < STEP_RUNS:
                last.runs.extend(piece)
            else:
                self.outcomes.append(DeferredOutcome(outcome, piece))

    def begin_next(self) -> int:
        """Start the next transaction; the caller takes over what this one deferred.

        Returns:
            Bytes of the publishes. The caller releases them to the budget when they are gone, and
            the deliveries with `UnackedRuns.release`.
        """
        held_bytes, self._held_bytes = self._held_bytes, 0
        self.message_count = self.answer_count = 0
        self.publishes = deque()
        self.outcomes = deque()
        self._counted = set()
        return held_bytes

    def roll_back(self) -> Iterator[None]:
        """Drop the publishes; make the deliveries outstanding again, not as redelivered.

        Each step does a part. Nothing else may use the transaction before the last one.
        """
        while self.publishes:
            self.publishes.popleft()
            yield
        while self.outcomes:
            self._unacked.restore(self.outcomes.popleft().runs)
            yield
        self._budget.release(self.begin_next())
