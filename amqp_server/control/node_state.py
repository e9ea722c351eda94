"""The state of the whole server."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amqp_server import __version__

if TYPE_CHECKING:
    from amqp_server.control.status import StatusSources

_DESCRIPTORS: Final = Path("/proc/self/fd")


class NodeState:
    """What is shown of the whole server.

    Args:
        sources: Parts of the server.
    """

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources

    async def as_json(self) -> dict[str, Any]:
        """Return the state of the server as JSON values."""
        sources = self._sources
        alarms = sources.alarms
        last = alarms.last
        host, port = sources.address
        used, total = await asyncio.to_thread(_descriptors)
        watch = sources.watch
        return {
            "version": __version__,
            "os_pid": str(os.getpid()),
            "uptime": int((time.monotonic() - sources.started_seconds) * 1000),
            "host": host,
            "port": port,
            "processors": os.cpu_count() or 1,
            "mem_used": last.memory_bytes if last else 0,
            "mem_limit": alarms.memory_bytes_max,
            "mem_alarm": alarms.is_memory_low,
            "disk_free": last.disk_free_bytes if last else 0,
            "disk_free_limit": alarms.disk_free_bytes_min,
            "disk_free_alarm": alarms.is_disk_low,
            "fd_used": used,
            "fd_total": total,
            "sockets_used": len(sources.open_connections),
            "stalls": watch.stall_count,
            "longest_stall_seconds": watch.longest_seconds,
            "turns": list(watch.buckets),
            "slow_readers_closed": sources.slow_readers.closed_count,
        }


def _descriptors() -> tuple[int, int]:
    """Return how many files are open, and how many may be; runs in a worker."""
    total = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return sum(1 for _ in _DESCRIPTORS.iterdir()), total
    except OSError:
        return 0, total
