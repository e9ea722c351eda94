"""What a consumer tells of itself."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind.

    Attributes:
        total: Offsets that are durable and not done with, in all logs of the consumer.
        logs: The same by log.
    """

    total: int
    logs: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """What a consumer has done since it was opened, and where it is.

    Attributes:
        logs: How many it has.
        delivered: Returned by `poll`.
        acked: Settled by acks and commits.
        dropped_total: Taken away by retention before the group was done with them, ever.
        lost_records: Damaged, and skipped for that.
        lag: As `Consumer.lag` says, at the last look.
        checkpoint_age_seconds: Since the last `sync` wrote or found nothing to write; None: never.
    """

    logs: int
    delivered: int
    acked: int
    dropped_total: int
    lost_records: int
    lag: int
    checkpoint_age_seconds: float | None
