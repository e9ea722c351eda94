"""What a transactional channel holds back until `tx.commit`: its publishes and its answers.

A publish is checked and routed when it comes; the queues hear of it at the commit. A delivery
that was answered is no longer outstanding for the client, who may not answer it again, but
keeps its credit and its place until the commit; a rollback makes it outstanding once more.
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
"""What a run of publishes takes in memory beside its messages."""
MESSAGE_BYTES = 64
"""What a message takes beside its octets."""


class Outcome(Enum):
    """What becomes of a delivery that the client has answered."""

    ACKNOWLEDGED = auto()
    REJECTED = auto()
    REQUEUED = auto()


class HeldPublish(NamedTuple):
    """Messages that were published alike, and where they are to go."""

    target: PublishTarget
    queues: Sequence[Queue]
    reply_keys: Sequence[str]
    messages: list[bytes]
    flags: int


class HeldAnswer(NamedTuple):
    """Deliveries that were answered alike."""

    outcome: Outcome
    runs: list[UnackedRun]


class TransactionBudget:
    """Bytes that uncommitted publishes hold, of all connections together.

    Args:
        limits: How many there may be, and how many of one channel.
    """

    def __init__(self, limits: Limits) -> None:
        self.held_bytes = 0
        self._bytes_max = limits.transaction_bytes_max
        self._channel_bytes_max = limits.transaction_bytes_per_channel_max

    def take(self, count: int, channel_bytes: int) -> None:
        """Count more bytes.

        Args:
            count: How many.
            channel_bytes: What the channel's transaction held before.

        Raises:
            PreconditionFailed: There would be too many.
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
        """Count fewer bytes."""
        self.held_bytes -= count


class Transaction:
    """The transaction that a channel is in; after each commit or rollback the next one.

    Args:
        unacked: What the channel has outstanding.
        budget: What all transactions share.
    """

    def __init__(self, unacked: UnackedRuns, budget: TransactionBudget) -> None:
        self.publishes: list[HeldPublish] = []
        self.answers: list[HeldAnswer] = []
        self._unacked = unacked
        self._budget = budget
        self._held_bytes = 0

    def publish(self, held: HeldPublish) -> None:
        """Hold messages back that have been routed.

        Raises:
            PreconditionFailed: They are too many for the memory that transactions may have.
        """
        size = sum(map(len, held.messages)) + RUN_BYTES + MESSAGE_BYTES * len(held.messages)
        self._budget.take(size, self._held_bytes)
        self._held_bytes += size
        self.publishes.append(held)

    def answer(self, outcome: Outcome, runs: list[UnackedRun]) -> None:
        """Hold an answer to deliveries back; they stay counted as outstanding."""
        self._unacked.hold(runs)
        if self.answers and self.answers[-1].outcome is outcome:
            self.answers[-1].runs.extend(runs)
        else:
            self.answers.append(HeldAnswer(outcome, runs))

    @property
    def held(self) -> tuple[list[HeldPublish], list[HeldAnswer]]:
        """What a commit has to do, in order."""
        return self.publishes, self.answers

    def begin_next(self) -> int:
        """Let go of what was held: a commit does it.

        Returns:
            Bytes that the publishes hold; the commit gives them back when it is done with
            them, and the answers to `UnackedRuns.release`.
        """
        held_bytes, self._held_bytes = self._held_bytes, 0
        self.publishes = []
        self.answers = []
        return held_bytes

    def roll_back(self) -> None:
        """Drop the publishes; what was answered is outstanding again, and is not redelivered."""
        for answer in self.answers:
            self._unacked.restore(answer.runs)
        self._budget.release(self.begin_next())
