"""Measures this process's memory, the memory that it may use, and its free disk space.

Memory is RssAnon: the pages that belong to the process alone. Pages of mapped files do not count:
they are the kernel's cache, which it takes back when needed.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from amqp_server.upkeep.alarms import Reading
from amqp_server.upkeep.allocator import QuietTimes, return_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STATUS = Path("/proc/self/status")
_CGROUP = Path("/proc/self/cgroup")
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CGROUP_V1_LIMIT = _CGROUP_ROOT / "memory" / "memory.limit_in_bytes"
_KIB = 1024
FREE_SPACE_SECONDS_MAX = 1.0
"""Seconds that a reading waits for the file system; it may hang."""
BLOCK_BYTES = 128
"""Estimated bytes of a small Python object, with its share of the interpreter.

Measured: 90 to 120 bytes in a server that has just started, less in one full of small messages.
"""


class ResourceSensor:
    """Measures this process and the file system of a directory.

    When the process is quiet after work, it returns freed memory first. Without /proc (macOS)
    memory counts as 0, so the memory alarm is never on.

    Args:
        directory: Directory whose file system is measured; must exist.
        memory_bytes_max: Bytes of memory above which the allocator's unused memory is returned to
            the system before the reading, so that freed memory does not keep an alarm on.
        counted_bytes: Returns the bytes of the message bodies that the server holds; called in a
            worker thread.
    """

    def __init__(
        self,
        directory: Path,
        memory_bytes_max: int,
        counted_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._memory_bytes_max = memory_bytes_max
        self._counted_bytes = counted_bytes
        self._free_space = _FreeSpace(directory)
        self._quiet_times = QuietTimes()

    def read(self) -> Reading:
        """Measure memory and disk; takes little longer than `FREE_SPACE_SECONDS_MAX`.

        Raises:
            OSError: The directory's file system is away, or has never answered.
        """
        self._quiet_times.look()
        memory_bytes = used_bytes = _own_memory_bytes()
        if memory_bytes > self._memory_bytes_max:
            return_freed_memory()
            memory_bytes = _own_memory_bytes()
            blocks_bytes = sys.getallocatedblocks() * BLOCK_BYTES
            used_bytes = min(memory_bytes, blocks_bytes + self._counted_bytes())
        return Reading(memory_bytes, self._free_space.read(), used_bytes)


class _FreeSpace:
    """The free space of a file system, which may hang: its memory must be watched all the more."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._asking: threading.Thread | None = None
        self._answer: int | OSError = TimeoutError(f"{directory} does not answer")

    def read(self) -> int:
        """Return the bytes free for this user now, or those of the last answer.

        Raises:
            OSError: That was an error, or there has been none.
        """
        # Two threads may read at a time: none relies on what it has looked at before.
        asking = self._asking
        if asking is None or not asking.is_alive():
            asking = threading.Thread(target=self._ask, name="amqp-free-space", daemon=True)
            try:
                asking.start()
            except RuntimeError as error:
                raise OSError(str(error)) from error
            self._asking = asking
        asking.join(FREE_SPACE_SECONDS_MAX)
        answer = self._answer
        if isinstance(answer, OSError):
            # It may be raised many times, and keeps the frames of each.
            raise answer.with_traceback(None)
        return answer

    def _ask(self) -> None:
        try:
            disk = os.statvfs(self._directory)
        except OSError as error:
            self._answer = error
        else:
            self._answer = disk.f_bavail * disk.f_frsize


def watermark_bytes(watermark: float) -> int:
    """Return a watermark in bytes; up to 1 it is a fraction of the memory that may be used."""
    return int(watermark * available_memory_bytes() if watermark <= 1 else watermark)


def available_memory_bytes() -> int:
    """Return the machine's memory in bytes, or the least limit of this process's cgroups."""
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
    """Yield the limit files of this process's cgroup and of all cgroups around it."""
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
