"""How much freed memory the C library keeps for the next allocation, and how long.

A message of 1 MiB is some twenty objects of 128 KiB or 1 MiB on its way. As glibc starts, it
returns such memory to the system as soon as it is free, and the next message makes the kernel map
and clear the same pages again: that was a third of the server's time for large messages. glibc
keeps more by itself only after it has freed larger blocks. `keep_freed_memory` begins where that
ends. What is kept goes back to the system when the server has nothing to do any more.

Other C libraries, and allocators that are loaded in its place, decide for themselves.

Source: mallopt(3), malloc_trim(3).
"""

from __future__ import annotations

import ctypes
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amqp_server.base.time_slice import Stopwatch

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Free memory at the end of a heap that is kept at most; glibc's own limit on 64-bit machines."""
KEPT_SHARE: Final = 32
"""Part of the memory that the process may use which is kept at most: one in so many."""
QUIET_SHARE: Final = 0.05
"""Most CPU time of a quiet process, as a share of the time that passes."""
OWN_PAGES_SHARE: Final = 8
"""Part of what is kept above which a block gets pages of its own: one in so many."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MADE_BY_USER: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
_TUNABLES: Final = "GLIBC_TUNABLES"


def keep_freed_memory(available_bytes: int, environment: Mapping[str, str]) -> int:
    """Let glibc keep what is freed, up to a bound, for the next message.

    Larger blocks than an eighth of the bound get pages of their own, which are returned when they
    are freed: one body of 100 MiB leaves nothing behind.

    Args:
        available_bytes: Memory that this process may use.
        environment: Variables of the process: what they say of glibc's thresholds is left alone.

    Returns:
        Bytes that each heap may keep; 0 if nothing was changed.
    """
    is_set = any(name in environment for name in _MADE_BY_USER)
    mallopt = None if is_set else _function("mallopt")
    if mallopt is None or "glibc.malloc" in environment.get(_TUNABLES, ""):
        return 0
    kept_bytes = min(KEPT_BYTES_MAX, available_bytes // KEPT_SHARE)
    mallopt(_M_MMAP_THRESHOLD, kept_bytes // OWN_PAGES_SHARE)
    mallopt(_M_TRIM_THRESHOLD, kept_bytes)
    return kept_bytes


class QuietTimes:
    """Returns freed memory to the system when the process is quiet after work.

    It is looked for in the memory of the whole process, which may take some milliseconds.

    Args:
        stopwatch: Tells the time.
        cpu_seconds: Returns the CPU time that the process has used.
        give_back: Returns the memory.
    """

    def __init__(
        self,
        stopwatch: Stopwatch = perf_counter,
        cpu_seconds: Callable[[], float] = process_time,
        give_back: Callable[[], None] | None = None,
    ) -> None:
        self._stopwatch = stopwatch
        self._cpu_seconds = cpu_seconds
        self._give_back = give_back or return_freed_memory
        self._has_worked = False
        self._looked_at = stopwatch(), cpu_seconds()

    def look(self) -> None:
        """Return freed memory if the process has worked, but not since the last look.

        The time between two looks should be a second or more. Any thread may call this.
        """
        began_seconds, began_cpu_seconds = self._looked_at
        seconds = self._stopwatch() - began_seconds
        if self._cpu_seconds() - began_cpu_seconds > seconds * QUIET_SHARE:
            self._has_worked = True
        elif self._has_worked:
            self._has_worked = False
            self._give_back()
        # After what was given back: that was work, too.
        self._looked_at = self._stopwatch(), self._cpu_seconds()


def return_freed_memory() -> None:
    """Return to the system what glibc has kept, in the middle of its heaps too."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library; None if it is another library that has none."""
    if sys.platform != "linux":
        return None
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return function
