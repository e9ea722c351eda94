"""Publishes that came one behind the other, taken together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.protocol import framing

if TYPE_CHECKING:
    from collections import deque


def publishes_in_row(
    event: tuple[Any, ...], events: deque[tuple[Any, ...]] | None
) -> list[tuple[Any, ...]]:
    """Return a publish and those of the same channel right behind it, which leave `events`.

    Args:
        event: A publish that was taken from `events`.
        events: What came behind it; None if each event must be looked at by itself.
    """
    row = [event]
    kind, number = framing.PUBLISH, event[1]
    while events and (behind := events[0])[0] == kind and behind[1] == number:
        row.append(behind)
        del events[0]
    return row
