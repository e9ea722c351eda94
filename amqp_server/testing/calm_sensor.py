"""A sensor for brokers in tests: neither memory nor disk is ever low."""

from __future__ import annotations

from amqp_server.upkeep.alarms import Reading


class CalmSensor:
    """Reports no memory and no free disk; use it with a disk limit of 0.

    The memory of the process is that of the tests: the broker must not block publishers because of
    it. Without free space the server makes no disk reserve.
    """

    def read(self) -> Reading:
        """Return the same reading always."""
        return Reading(memory_bytes=0, disk_free_bytes=0)
