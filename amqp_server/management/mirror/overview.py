"""Sums over all objects of the broker, and the counters of the whole server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.mirror.fields import DEPTH_NAMES, message_stats
from amqp_server.management.mirror.row import Row
from amqp_server.management.mirror.series import TOTALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amqp_server.management.mirror.row import Ticks
    from amqp_server.management.mirror.table import Table

CHURN: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
"""Counters of objects that came and went."""
_COUNTED: Final = (
    *DEPTH_NAMES,
    *CHURN,
    "recv_oct",
    "send_oct",
)


class Overview:
    """The row of the whole server.

    Args:
        ticks: When samples are taken.

    Attributes:
        row: Its fields: `message_stats`, `churn_rates`, `queue_totals`, `object_totals`, and of the
            totals what the broker tells; samples are kept of its counters by their plain names.
    """

    def __init__(self, ticks: Ticks) -> None:
        self.row = Row(ticks, TOTALS, is_new=False, counted=_COUNTED)

    def take(
        self,
        result: Mapping[str, Any],
        tables: Mapping[str, Table],
        depths: Mapping[str, Sequence[int]],
    ) -> None:
        """Take the result of a refresh.

        Args:
            result: What the broker has returned.
            tables: All objects by kind.
            depths: Messages by virtual host, in the order of `DEPTH_NAMES`.
        """
        totals = result.get("totals", {})
        sums = map(sum, zip(*depths.values(), strict=True)) if depths else (0,) * len(DEPTH_NAMES)
        queue_totals = dict(zip(DEPTH_NAMES, sums, strict=True))
        churn = {name: totals.get(name, 0) for name in CHURN}
        self.row.fields = {
            **totals,
            **queue_totals,
            **churn,
            "message_stats": message_stats(totals.get("message_stats", {})),
            "churn_rates": churn,
            "queue_totals": queue_totals,
            "publishers": sum(1 for row in tables["channels"].rows.values() if row.has_published),
            "consumers": len(tables["consumers"].rows),
            "object_totals": {
                kind: len(tables[kind].rows)
                for kind in ("connections", "channels", "exchanges", "queues", "consumers")
            },
        }
        # What was counted before this process began is no change: nothing jumps from 0 to it.
        self.row.begin_change()
