"""How much memory this process has, how much it may have, and how much room its disk has.

Memory is RssAnon: what the process holds for itself. Pages of mapped files are the kernel's
cache, which it takes back when it needs them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from amqp_server.alarms import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STATUS = Path("/proc/self/status")
_CGROUP = Path("/proc/self/cgroup")
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CGROUP_V1_LIMIT = _CGROUP_ROOT / "memory" / "memory.limit_in_bytes"
_KIB = 1024
BLOCK_BYTES = 128
"""What a small object of Python takes, with its share of the interpreter: an estimate.

In a server that has just started it is 90 to 120 bytes, in one full of small messages less.
"""


class ResourceSensor:
    """Looks at this process and at the file system of a directory.

    Where there is no /proc (macOS) memory is not seen, and its alarm is never on.

    Args:
        directory: Whose file system is looked at; it must exist.
        memory_bytes_max: Above it, what the allocator keeps without need is given back before the
            verdict: memory that was freed must not keep an alarm on.
        counted_bytes: Returns the bytes of the message bodies that the server holds; called in a
            worker thread.
    """

    def __init__(
        self,
        directory: Path,
        memory_bytes_max: int,
        counted_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._directory = directory
        self._memory_bytes_max = memory_bytes_max
        self._counted_bytes = counted_bytes
        self._trim = _allocator_trim()

    def read(self) -> Reading:
        """Look.

        Raises:
            OSError: The directory's file system does not answer.
        """
        memory_bytes = used_bytes = _own_memory_bytes()
        if memory_bytes > self._memory_bytes_max:
            self._trim()
            memory_bytes = _own_memory_bytes()
            blocks_bytes = sys.getallocatedblocks() * BLOCK_BYTES
            used_bytes = min(memory_bytes, blocks_bytes + self._counted_bytes())
        disk = os.statvfs(self._directory)
        return Reading(memory_bytes, disk.f_bavail * disk.f_frsize, used_bytes)


def watermark_bytes(watermark: float) -> int:
    """Return a watermark in bytes; one up to 1 is a share of the memory that may be used."""
    return int(watermark * available_memory_bytes() if watermark <= 1 else watermark)


def available_memory_bytes() -> int:
    """Return the machine's memory, or the least limit of the cgroups that this process is in."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_cgroup_limits_bytes()])


def _own_memory_bytes() -> int:
    try:
        status = _STATUS.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * _KIB
    return 0


def _cgroup_limits_bytes() -> Iterator[int]:
    for path in _cgroup_limit_files():
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if text.isdecimal():
            yield int(text)


def _cgroup_limit_files() -> Iterator[Path]:
    """Yield the files with limits: of this process's cgroup and of those around it."""
    yield _CGROUP_V1_LIMIT
    try:
        lines = _CGROUP.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    group = _CGROUP_ROOT / own.lstrip("/")
    while group.is_relative_to(_CGROUP_ROOT):
        yield group / "memory.max"
        group = group.parent


def _allocator_trim() -> Callable[[], object]:
    """Return what gives free memory back to the system: glibc's malloc_trim, or nothing."""
    if sys.platform != "linux":
        return lambda: None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: trim(0)) if trim is not None else (lambda: None)
