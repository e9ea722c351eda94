"""Rows as the mirror has them, for tests of what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class FixedRow:
    """One object of a broker."""

    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class FixedExports:
    """What exports have done, and no broker that would know more."""

    rows: tuple[dict[str, Any], ...] = ()

    async def refresh(self) -> None:
        """Return."""


@dataclass
class FixedPair:
    """The counters of one pair."""

    ends: tuple[str | tuple[str, str], str | tuple[str, str]]
    stats: dict[str, int]


@dataclass
class FixedMirror:
    """The state of a broker that does not change by itself.

    Attributes:
        refresh_count: How often it was asked to come up to date.
        failure: What a refresh raises, if anything.
    """

    vhosts: dict[str, FixedRow] = field(default_factory=dict)
    queues: dict[tuple[str, str], FixedRow] = field(default_factory=dict)
    exchanges: dict[tuple[str, str], FixedRow] = field(default_factory=dict)
    connections: dict[str, FixedRow] = field(default_factory=dict)
    channels: dict[str, FixedRow] = field(default_factory=dict)
    pairs: dict[str, list[FixedPair]] = field(
        default_factory=lambda: {"publishes": [], "deliveries": [], "incoming": []}
    )
    node: FixedRow = field(default_factory=FixedRow)
    overview: FixedRow = field(default_factory=FixedRow)
    exports: FixedExports = field(default_factory=FixedExports)
    refresh_count: int = 0
    failure: Exception | None = None

    async def refresh(self) -> None:
        self.refresh_count += 1
        if self.failure is not None:
            raise self.failure


def mirror_of_queues(*names: str, vhost: str = "/") -> FixedMirror:
    """Return a broker with queues, of which the Nth has N ready messages and N log bytes."""
    queues = {
        (vhost, name): FixedRow(
            {
                "messages": number,
                "messages_ready": number,
                "messages_unacknowledged": 0,
                "log_bytes": number,
                "type": "classic",
                "message_stats": {"publish": number, "ack": number},
            }
        )
        for number, name in enumerate(names, 1)
    }
    return FixedMirror(vhosts={vhost: FixedRow()}, queues=queues)
