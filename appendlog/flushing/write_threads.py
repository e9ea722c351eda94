"""Threads that only write what was prepared: the compiled ones, if they can be used.

They make the system calls of `SegmentWrite.write` without the interpreter. There is no interpreted
kernel with the same interface: without the compiled one the flusher's own threads write. Writes of
a file system that has its own operations (`FileSystem.writes_natively`) are left to these, too.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from appendlog.layout.builds import chosen_build
from appendlog.segments.segment_write import SegmentWrite


class WriteThreads(Protocol):
    """Threads that write and sync beside the interpreter; one thread owns them."""

    def submit(self, write: SegmentWrite) -> None:
        """Let a thread write, as soon as one is free; the bell rings when something is done."""

    def take(self) -> list[SegmentWrite]:
        """Return all writes that are done and were not returned before; they know their results."""

    def written(self) -> list[SegmentWrite]:
        """Return all writes that are done and were not taken yet; any thread may ask."""

    def close(self) -> None:
        """End the threads, after what was submitted. What was not taken is lost."""


def write_threads(count: int, bell: int) -> WriteThreads | None:
    """Start threads, if this system and this build have them.

    Args:
        count: Number of threads, >= 1.
        bell: Descriptor that does not block; an octet is written to it when the first write is done
            that was not taken.

    Raises:
        OSError: A thread cannot be started.
    """
    return None if _START is None else _START(count, bell)


def _load_compiled() -> Callable[[int, int], WriteThreads] | None:
    # Its system calls are Linux'.
    if sys.platform != "linux":
        return None
    kernel = import_module("appendlog.flushing._write_threads_c")
    start: Callable[[int, int], WriteThreads] = kernel.WriteThreads
    return start


_START, _ = chosen_build(_load_compiled, None)
