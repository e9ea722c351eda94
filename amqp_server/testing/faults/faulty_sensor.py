"""A sensor that reports low memory and a full disk on demand."""

from __future__ import annotations

from typing import Final

from amqp_server.testing.calm_sensor import CalmSensor
from amqp_server.upkeep.alarms import Reading

_MUCH_BYTES: Final = 1 << 62


class FaultySensor(CalmSensor):
    """Reports what a test wants.

    Attributes:
        low: Names of the resources that are low, `memory` or `disk`; one may be in it twice.
    """

    def __init__(self) -> None:
        self.low: list[str] = []

    def read(self) -> Reading:
        """Return a reading that raises the alarms of what is low."""
        calm = super().read()
        return calm._replace(
            memory_bytes=_MUCH_BYTES if "memory" in self.low else calm.memory_bytes,
            # Less than any limit: that of tests is 0.
            disk_free_bytes=-1 if "disk" in self.low else calm.disk_free_bytes,
        )
