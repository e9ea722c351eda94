"""Statistics of a consumer."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Lag:
    """Number of durable records that a group has not settled.

    Attributes:
        total: Number of offsets in all logs of the consumer.
        logs: Number of offsets by log name.
    """

    total: int
    logs: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """Counters of a consumer since it was opened, and its lag.

    Attributes:
        logs: Number of logs.
        delivered: Records returned by `poll`.
        acked: Records settled by acks and commits.
        dropped_total: Records that retention removed before the group had settled them, ever.
        lost_records: Offsets skipped because of damage.
        lag: Lag at the last refresh; see `Consumer.lag`.
        checkpoint_age_seconds: Seconds since the last successful `sync`; None if there was none.
    """

    logs: int
    delivered: int
    acked: int
    dropped_total: int
    lost_records: int
    lag: int
    checkpoint_age_seconds: float | None
