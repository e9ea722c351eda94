"""A message as those see it who browse a queue: its record, and what has become of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.broker.header_filter import matches
from amqp_server.maintenance.record_view import record_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amqp_server.broker.header_filter import HeaderFilter


def browsed_rows(
    records: Iterable[tuple[int, int, bytes, str]],
    state: str,
    filters: Sequence[HeaderFilter],
    body_bytes_max: int | None,
) -> Iterator[dict[str, Any]]:
    """Return what JSON can hold of the records that were asked for.

    Args:
        records: Offset, append time (0: not known), message and state of each.
        state: Only those in this state; empty for all.
        filters: Only those that have all of these headers.
        body_bytes_max: Bytes of each body to show; None for all.
    """
    for offset, timestamp_ns, message, its_state in records:
        if (state and its_state != state) or not matches(message, filters):
            continue
        view = record_view(offset, timestamp_ns, message, body_bytes_max)
        yield {"offset": offset, "state": str(its_state), **view}
