"""What only the past of a queue tells: the age of its oldest message, and its utilisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.mirror.row import Row

_PUBLISH: Final = "message_stats.publish"


def show_oldest(row: Row, values: Mapping[str, Any], now_seconds: float) -> None:
    """Show when the oldest message of a queue was published, as far as it is known.

    The samples tell how many messages had been published when, so also when a message was. It is
    exact to the time between two samples.

    Args:
        row: The queue.
        values: Its values in the report.
        now_seconds: The present, Unix time.
    """
    fields = row.fields
    if not fields["messages"]:
        return
    unsettled = values["log_end_offset"] - values["ack_floor"]
    published_before = values["publish"] - unsettled
    found: float | None = None
    if published_before >= 0:
        found = row.time_above(_PUBLISH, published_before)
        if found is None and row.samples_tell(_PUBLISH, published_before):
            found = now_seconds
    if found is None and values["oldest_segment_ns"]:
        found = values["oldest_segment_ns"] / 1e9
    if found is not None:
        fields["oldest_message_timestamp"] = int(found * 1000)


def show_utilisation(row: Row, before: Mapping[str, Any], now_seconds: float) -> None:
    """Show for which share of the time the consumers of a queue could take its messages.

    Args:
        row: The queue.
        before: Its fields before.
        now_seconds: The present, Unix time.
    """
    fields = row.fields
    seconds = now_seconds - row.reported_seconds
    row.reported_seconds = now_seconds
    share = 0.0
    if fields["consumers"]:
        waited = fields["consumer_wait_seconds"] - before.get("consumer_wait_seconds", 0.0)
        share = 1.0 if seconds <= 0 else min(max(1 - waited / seconds, 0.0), 1.0)
    fields["consumer_utilisation"] = fields["consumer_capacity"] = round(share, 4)
