"""Alarms for low memory, low disk space and a disk that hangs, and the events of begin and end.

    Sensor (worker thread) --Reading--> Alarms --reason--> connections that publish
    DiskWatch (its own thread) --Stall-->

The memory alarm is on while memory is above its watermark, the disk alarm while the disk of the
data directory is nearly full, and `disk_stall` while an operation on it does not return. While an
alarm is on, publishes are parked (`amqp_server.connections.parked_publishes`). Consuming and
acknowledging continue, because they end the alarm.

Source: RabbitMQ, rabbit_alarm (sources memory and disk) and rabbit_reader (reason texts).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amqp_server.broker.events.events import Events
    from amqp_server.upkeep.disk_watch import Stall

logger = logging.getLogger("amqp_server.alarms")

DISK_STALL: Final = "disk_stall"
"""Name of the alarm for a disk that hangs."""
EMPTY_SHARE = 0.5
"""Share of the watermark: while less memory is in use, the memory alarm is off."""
CERTAIN_SHARE = 1.5
"""Share of the watermark above which the alarm is on, whatever is estimated to be in use."""


class Reading(NamedTuple):
    """One measurement of memory and disk.

    Attributes:
        memory_bytes: Memory of this process alone, without mapped files.
        disk_free_bytes: Bytes free on the disk of the data directory.
        used_bytes: Estimate of the memory in use; the allocator keeps the rest, because its free
            blocks are too scattered to be returned to the system. None: unknown.
    """

    memory_bytes: int
    disk_free_bytes: int
    used_bytes: int | None = None


class Sensor(Protocol):
    """Measures memory and disk."""

    def read(self) -> Reading:
        """Measure; called in a worker thread, because a slow disk may block it.

        Raises:
            OSError: The values cannot be read now.
        """


class Alarms:
    """State of the alarms.

    Args:
        sensor: Measures memory and disk.
        memory_bytes_max: Bytes of memory above which the memory alarm is on; with 0 it always is.
        disk_free_bytes_min: Free bytes on the disk below which the disk alarm is on.
        changed: Called when an alarm begins or ends.
        relieve_memory: Called after each check that finds memory low.
        use_disk: Called after each check that finds enough space on the disk.
        keeps_growing: Returns why queues may grow beyond what is asked for, a line each; logged
            when the disk alarm begins.

    Attributes:
        is_memory_low: Whether the memory alarm is on.
        is_disk_low: Whether the disk alarm is on.
        stall: The disk that does not answer; None if it does, as far as anyone knows.
        last: The last measurement; None before the first.
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
        keeps_growing: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.memory_bytes_max = memory_bytes_max
        self.disk_free_bytes_min = disk_free_bytes_min
        self.is_memory_low = False
        self.is_disk_low = False
        self.stall: Stall | None = None
        self.last: Reading | None = None
        self._forced: set[str] = set()
        self._sensor = sensor
        self._changed = changed
        self._relieve_memory = relieve_memory
        self._use_disk = use_disk
        self._keeps_growing = keeps_growing

    @property
    def low(self) -> list[str]:
        """Names of the alarms that are on: the resources that are low, or `disk_stall`."""
        stalled = [DISK_STALL] * (self.stall is not None)
        return ["memory"] * self.is_memory_low + ["disk"] * self.is_disk_low + stalled

    @property
    def reason(self) -> str:
        """Reason in `connection.blocked`; empty when no alarm is on."""
        low = [each for each in self.low if each != DISK_STALL]
        reasons = [f"low on {' & '.join(low)}"] if low else []
        if self.stall is not None:
            reasons.append("the disk does not answer")
        return "; ".join(reasons)

    async def look(self) -> None:
        """Check once. If the sensor fails, the alarms stay unchanged."""
        try:
            reading = await asyncio.to_thread(self._sensor.read)
        except OSError as error:
            logger.warning("memory and disk not checked error=%s", error)
            return
        self.take(reading)

    async def run(self, interval_seconds: float) -> None:
        """Check every interval until cancelled."""
        while True:
            await asyncio.sleep(interval_seconds)
            await self.look()

    def force(self, resource: str, *, is_on: bool) -> None:
        """Keep an alarm on whatever is measured, or let it follow the measurements again.

        Args:
            resource: `memory` or `disk`.
            is_on: Whether the alarm is kept on.
        """
        if is_on:
            self._forced.add(resource)
        else:
            self._forced.discard(resource)
        if self.last is not None:
            self.take(self.last)

    def take_stall(self, stall: Stall | None) -> None:
        """Begin the alarm `disk_stall`, or end it with None; calls `changed`."""
        self.stall = stall
        self._changed()

    def take(self, reading: Reading) -> None:
        """Evaluate a measurement, and call `changed` if an alarm begins or ends."""
        self.last = reading
        used_bytes = reading.memory_bytes if reading.used_bytes is None else reading.used_bytes
        # New messages fit into the memory that the allocator keeps: it must not block a nearly
        # empty broker for ever.
        is_memory_low = reading.memory_bytes > self.memory_bytes_max and (
            used_bytes > self.memory_bytes_max * EMPTY_SHARE
            # The estimate may miss something: far above the watermark only the memory counts.
            or reading.memory_bytes > self.memory_bytes_max * CERTAIN_SHARE
        )
        is_disk_low = reading.disk_free_bytes < self.disk_free_bytes_min
        # A limit of 0 is a wish: no client may publish, whatever is measured, or not (macOS).
        is_memory_low = is_memory_low or not self.memory_bytes_max or "memory" in self._forced
        is_disk_low = is_disk_low or "disk" in self._forced
        has_changed = (is_memory_low, is_disk_low) != (self.is_memory_low, self.is_disk_low)
        self.is_memory_low = is_memory_low
        self.is_disk_low = is_disk_low
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
            for note in self._keeps_growing() if is_disk_low else ():
                logger.warning("disk alarm note=%s", note)
            self._changed()
        if is_memory_low and self.memory_bytes_max:
            self._relieve_memory()
        if not is_disk_low:
            self._use_disk()


class AlarmEvents:
    """Reports which alarms begin and end.

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
