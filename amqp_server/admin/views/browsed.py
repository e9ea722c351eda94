"""A browsed message: the content of its record, and its state in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.admin.views.record_view import record_view
from amqp_server.broker.header_filter import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amqp_server.broker.header_filter import HeaderFilter


def browsed_rows(
    records: Iterable[tuple[int, int, bytes, str]],
    state: str,
    filters: Sequence[HeaderFilter],
    body_bytes_max: int | None,
) -> Iterator[dict[str, Any]]:
    """Return the matching records as JSON values.

    Args:
        records: Offset, append time in ns (0: unknown), message and state of each record.
        state: State of the wanted records; empty for all.
        filters: Headers that wanted records must all have.
        body_bytes_max: Bytes of each body to show; None for all.
    """
    for offset, timestamp_ns, message, its_state in records:
        if (state and its_state != state) or not matches(message, filters):
            continue
        view = record_view(offset, timestamp_ns, message, body_bytes_max)
        yield {"offset": offset, "state": str(its_state), **view}
