"""Events of alarms: each resource that becomes low, or is no longer low."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.events.events import Events


class AlarmEvents:
    """Tells which alarms begin and end.

    Args:
        events: Events of the broker.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._low: Sequence[str] = ()

    def report(self, low: Sequence[str]) -> None:
        """Report what has changed.

        Args:
            low: Names of the resources that are low now.
        """
        before, self._low = self._low, tuple(low)
        for source in self._low:
            if source not in before:
                self._events.report("alarm.set", object_name=source)
        for source in before:
            if source not in self._low:
                self._events.report("alarm.cleared", object_name=source)
