"""Alarms: memory is above its watermark, or the disk of the data directory is nearly full.

    Sensor (worker thread) --Reading--> Alarms --reason--> connections that publish

While one is on, publishes are parked (`amqp_server.parked_publishes`); all else goes on, for
acknowledging and consuming is what relieves it.

Source: RabbitMQ, rabbit_alarm (sources memory and disk) and rabbit_reader (reason texts).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


EMPTY_SHARE = 0.5
"""Share of the watermark; while less is in use the memory alarm is off, whatever is held."""


class Reading(NamedTuple):
    """What a sensor saw.

    Attributes:
        memory_bytes: Memory of this process alone, without mapped files.
        disk_free_bytes: Room that is left for the data directory.
        used_bytes: What of the memory is in use, by an estimate; the rest is kept by the allocator,
            whose free places are too scattered to be given back. None: it is not known.
    """

    memory_bytes: int
    disk_free_bytes: int
    used_bytes: int | None = None


class Sensor(Protocol):
    """Looks at memory and disk."""

    def read(self) -> Reading:
        """Look; called in a worker thread, for a disk may let it wait.

        Raises:
            OSError: It cannot be seen now.
        """


class Alarms:
    """Which resources are low.

    Args:
        sensor: Looks.
        memory_bytes_max: The memory alarm is on above this.
        disk_free_bytes_min: The disk alarm is on below this.
        changed: Called when an alarm begins or ends.
        relieve_memory: Called after each look that finds memory low.
        use_disk: Called after each look that finds room on the disk.

    Attributes:
        is_memory_low: Whether the memory alarm is on.
        is_disk_low: Whether the disk alarm is on.
        last: What was seen last.
    """

    def __init__(
        self,
        sensor: Sensor,
        *,
        memory_bytes_max: int,
        disk_free_bytes_min: int,
        changed: Callable[[], None],
        relieve_memory: Callable[[], None],
        use_disk: Callable[[], None],
    ) -> None:
        self.memory_bytes_max = memory_bytes_max
        self.disk_free_bytes_min = disk_free_bytes_min
        self.is_memory_low = False
        self.is_disk_low = False
        self.last: Reading | None = None
        self._sensor = sensor
        self._changed = changed
        self._relieve_memory = relieve_memory
        self._use_disk = use_disk

    @property
    def low(self) -> list[str]:
        """Names of what is low."""
        return ["memory"] * self.is_memory_low + ["disk"] * self.is_disk_low

    @property
    def reason(self) -> str:
        """What `connection.blocked` says; empty when no alarm is on."""
        return f"low on {' & '.join(self.low)}" if self.low else ""

    async def look(self) -> None:
        """Look once. What cannot be seen changes nothing."""
        try:
            reading = await asyncio.to_thread(self._sensor.read)
        except OSError as error:
            logger.warning("memory and disk not checked error=%s", error)
            return
        self.take(reading)

    async def run(self, interval_seconds: float) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(interval_seconds)
            await self.look()

    def take(self, reading: Reading) -> None:
        """Judge what was seen, and tell of an alarm that begins or ends."""
        self.last = reading
        used_bytes = reading.memory_bytes if reading.used_bytes is None else reading.used_bytes
        # Messages that come now find room in what the allocator keeps: a broker that is nearly
        # empty must not be blocked by it for ever.
        is_memory_low = (
            reading.memory_bytes > self.memory_bytes_max
            and used_bytes > self.memory_bytes_max * EMPTY_SHARE
        )
        is_disk_low = reading.disk_free_bytes < self.disk_free_bytes_min
        has_changed = (is_memory_low, is_disk_low) != (self.is_memory_low, self.is_disk_low)
        self.is_memory_low, self.is_disk_low = is_memory_low, is_disk_low
        if has_changed:
            logger.warning(
                "alarms reason=%s memory_bytes=%d memory_bytes_max=%d disk_free_bytes=%d "
                "disk_free_bytes_min=%d",
                self.reason or "none",
                reading.memory_bytes,
                self.memory_bytes_max,
                reading.disk_free_bytes,
                self.disk_free_bytes_min,
            )
            self._changed()
        if is_memory_low:
            self._relieve_memory()
        if not is_disk_low:
            self._use_disk()
