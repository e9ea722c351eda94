"""The state of the whole server."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amqp_server import __version__
from amqp_server.admin.change_feed.totals import broker_totals
from amqp_server.broker.parameters import CLUSTER_ID
from amqp_server.broker.turn_watch import BOUNDS_SECONDS as TURN_BOUNDS_SECONDS
from amqp_server.control.memory_parts import memory_parts
from appendlog.files.counted_files import BOUNDS_SECONDS, CountedFiles

if TYPE_CHECKING:
    from amqp_server.control.status import StatusSources
    from amqp_server.upkeep.checkpointer import Checkpointer
    from appendlog import FileSystem

_DESCRIPTORS: Final = Path("/proc/self/fd")


class NodeState:
    """State of the whole server, as it is shown.

    Args:
        sources: Parts of the server.
        checkpointer: Knows the age of the last checkpoint.
        files: File operations of the server, which may count themselves.
    """

    def __init__(
        self, sources: StatusSources, checkpointer: Checkpointer, files: FileSystem
    ) -> None:
        self._sources = sources
        self._checkpointer = checkpointer
        self._files = files
        self._started_seconds = round(time.time() - (time.monotonic() - sources.started_seconds), 3)

    def totals(self) -> dict[str, Any]:
        """Return the counters of the whole server as JSON values."""
        parameters = self._sources.broker.global_parameters
        return broker_totals(self._sources.broker) | {
            "cluster_name": str(parameters.get("cluster_name", "")),
            "cluster_id": str(parameters.get(CLUSTER_ID, "")),
        }

    async def as_json(self) -> dict[str, Any]:
        """Return the state of the server as JSON values."""
        sources = self._sources
        alarms = sources.alarms
        last = alarms.last
        host, port = sources.address
        used, total = await asyncio.to_thread(_descriptors)
        memory_bytes = last.memory_bytes if last else 0
        parts = await asyncio.to_thread(
            memory_parts, memory_bytes, sources.broker, sources.open_connections
        )
        watch = sources.watch
        return {
            "version": __version__,
            "name": f"rabbit@{socket.gethostname().partition('.')[0]}",
            "os_pid": str(os.getpid()),
            "started_seconds": self._started_seconds,
            "uptime": int((time.monotonic() - sources.started_seconds) * 1000),
            "host": host,
            "port": port,
            "processors": os.cpu_count() or 1,
            "run_queue": 0,
            "proc_used": threading.active_count(),
            "gc_num": sum(each["collections"] for each in gc.get_stats()),
            "context_switches": _context_switches(),
            "mem_used": memory_bytes,
            "memory_parts": parts,
            "mem_limit": alarms.memory_bytes_max,
            "mem_alarm": alarms.is_memory_low,
            "disk_free": last.disk_free_bytes if last else 0,
            "disk_free_limit": alarms.disk_free_bytes_min,
            "disk_free_alarm": alarms.is_disk_low,
            "disk_stall_alarm": alarms.stall is not None,
            "fd_used": used,
            "fd_total": total,
            "sockets_used": len(sources.open_connections),
            "stalls": watch.stall_count,
            "longest_stall_seconds": watch.longest_seconds,
            "turn_seconds": {
                "bounds": TURN_BOUNDS_SECONDS,
                "counts": list(watch.buckets),
                "sum": watch.busy_seconds,
            },
            "slow_readers_closed": sources.slow_readers.closed_count,
            "checkpoint_age_seconds": round(self._checkpointer.age_seconds, 3),
            **_io(self._files),
        }


def _io(files: FileSystem) -> dict[str, Any]:
    """Return what was done with files; nothing if the file system does not count."""
    if not isinstance(files, CountedFiles):
        return {}
    counters = files.counters()
    return {
        "io_read_count": counters.read_count,
        "io_read_bytes": counters.read_bytes,
        "io_read_avg_time": _mean_ms(counters.read_seconds, counters.read_count),
        "io_write_count": counters.write_count,
        "io_write_bytes": counters.write_bytes,
        "io_write_avg_time": _mean_ms(counters.write_seconds, counters.write_count),
        "io_sync_count": counters.sync_count,
        "io_sync_avg_time": _mean_ms(counters.sync_seconds, counters.sync_count),
        "io_read_time": counters.read_seconds,
        "io_write_time": counters.write_seconds,
        "io_sync_time": counters.sync_seconds,
        "fsync_seconds": {
            "bounds": BOUNDS_SECONDS,
            "counts": counters.sync_buckets,
            "sum": counters.sync_seconds,
        },
    }


def _mean_ms(seconds: float, count: int) -> float:
    return round(seconds * 1000 / count, 6) if count else 0.0


def _context_switches() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw


def _descriptors() -> tuple[int, int]:
    """Return how many files are open, and how many may be; runs in a worker."""
    total = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return sum(1 for _ in _DESCRIPTORS.iterdir()), total
    except OSError:
        return 0, total
