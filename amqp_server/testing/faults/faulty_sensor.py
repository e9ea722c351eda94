"""Sensors for brokers in tests: memory and disk are never low, or low on demand."""

from __future__ import annotations

from typing import Final

from amqp_server.upkeep.alarms import Reading

_MUCH_BYTES: Final = 1 << 62


class CalmSensor:
    """Reports no memory and no free disk; use it with a disk limit of 0.

    The memory of the process is that of the tests: the broker must not block publishers because of
    it. Without free space the server makes no disk reserve.
    """

    def read(self) -> Reading:
        """Return the same reading always."""
        return Reading(memory_bytes=0, disk_free_bytes=0)


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
