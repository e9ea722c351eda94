"""What a transactional channel defers until `tx.commit`: its publishes, acks and rejects.

A publish is checked and routed at once; the queues get it at the commit. An acknowledged delivery
is not outstanding for the client any more: it may not acknowledge it again. But it keeps its credit
and its place until the commit. A rollback makes it outstanding again.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.consuming.unacked import UnackedRun, UnackedRuns
    from amqp_server.broker.publishing.publish_targets import PublishTarget
    from amqp_server.broker.queue import Queue
    from amqp_server.limits import Limits

RUN_BYTES = 256
"""Memory of a run of publishes beside its messages, in bytes."""
MESSAGE_BYTES = 64
"""Memory of a message beside its octets, in bytes."""


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
    """Deliveries with the same outcome."""

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
                f"transaction is larger than configured max size {self._channel_bytes_max}", 60, 40
            )
        if self.held_bytes + count > self._bytes_max:
            raise PreconditionFailed(
                f"transactions of all connections hold {self.held_bytes} bytes, "
                f"at most {self._bytes_max} are allowed",
                60,
                40,
            )
        self.held_bytes += count

    def release(self, count: int) -> None:
        """Subtract bytes from what the transactions hold."""
        self.held_bytes -= count


class Transaction:
    """The current transaction of a channel; another one follows each commit or rollback.

    Args:
        unacked: Outstanding deliveries of the channel.
        budget: Limit that all transactions share.
    """

    def __init__(self, unacked: UnackedRuns, budget: TransactionBudget) -> None:
        self.publishes: list[DeferredPublish] = []
        self.outcomes: list[DeferredOutcome] = []
        self._unacked = unacked
        self._budget = budget
        self._held_bytes = 0

    def publish(self, deferred: DeferredPublish) -> None:
        """Defer messages that have been routed.

        Raises:
            PreconditionFailed: The limits of transactions would be exceeded.
        """
        size = sum(map(len, deferred.messages)) + RUN_BYTES + MESSAGE_BYTES * len(deferred.messages)
        self._budget.take(size, self._held_bytes)
        self._held_bytes += size
        self.publishes.append(deferred)

    def defer(self, outcome: Outcome, runs: list[UnackedRun]) -> None:
        """Defer an outcome of deliveries; they stay counted as outstanding."""
        self._unacked.hold(runs)
        if self.outcomes and self.outcomes[-1].outcome is outcome:
            self.outcomes[-1].runs.extend(runs)
        else:
            self.outcomes.append(DeferredOutcome(outcome, runs))

    @property
    def deferred(self) -> tuple[list[DeferredPublish], list[DeferredOutcome]]:
        """The publishes and outcomes that a commit applies, in order."""
        return self.publishes, self.outcomes

    def begin_next(self) -> int:
        """Start the next transaction; a commit takes over what this one deferred.

        Returns:
            Bytes of the publishes. The commit releases them to the budget when it ends, and the
            deliveries with `UnackedRuns.release`.
        """
        held_bytes, self._held_bytes = self._held_bytes, 0
        self.publishes = []
        self.outcomes = []
        return held_bytes

    def roll_back(self) -> None:
        """Drop the publishes; the deliveries are outstanding again and are not redelivered."""
        # One call: each examines all runs of the channel.
        self._unacked.restore([run for deferred in self.outcomes for run in deferred.runs])
        self._budget.release(self.begin_next())
