"""Listing many directories, and reading many small files, in one call.

A start does that with tens of thousands. Each takes a few system calls, which cost several times as
much if the interpreter makes them one by one: at every one it gives its lock away and waits for it.
"""

import os
import resource
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Final, NamedTuple, TypeAlias

from appendlog.files.filesystem import FileSystem
from appendlog.layout.builds import chosen_build

_LIMIT_MIN: Final = 512
"""Limit of open files that leaves enough to others."""
PATHS_AT_ONCE: Final = 256
"""Files or directories in one call: what they contain is in memory at the same time."""

_Names: TypeAlias = list[tuple[str, bool]]


class _Kernel(NamedTuple):
    list_directories: Callable[[list[bytes]], list[_Names | None]]
    read_files: Callable[[list[bytes]], list[bytes | None]]


def _load_compiled() -> _Kernel | None:
    # Its system calls are Linux'.
    if sys.platform != "linux":
        return None
    kernel = import_module("appendlog.files._bulk_reads_c")
    return _Kernel(kernel.list_directories, kernel.read_files)


_KERNEL, _ = chosen_build(_load_compiled, None)

READS_NATIVELY: Final = _KERNEL is not None
"""Whether there is a kernel."""
READERS: Final = 4 if READS_NATIVELY else 2
"""Threads that should read many small files.

A kernel waits for the disk without the interpreter: four of them keep it busy. Without a kernel one
thread parses while the other waits, and more would only take the interpreter's lock from each other
at every file operation.
"""


def reads_natively(filesystem: FileSystem) -> bool:
    """Return whether a kernel may read instead of a file system.

    Not where the process may have few files open: the threads in the kernels must not take
    descriptors that others need.
    """
    if not filesystem.reads_natively:
        return False
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit == resource.RLIM_INFINITY or limit >= _LIMIT_MIN


def list_directories(filesystem: FileSystem, paths: Sequence[str]) -> list[_Names | None]:
    """Return what `FileSystem.scandir` returns for each of these directories, unsorted.

    None stands for one that the caller has to ask for by itself, and for all of them without a
    compiled kernel or where the file system has its own way to read.

    Args:
        filesystem: File operations.
        paths: Paths of the directories, at most `PATHS_AT_ONCE`.
    """
    if _KERNEL is None or not paths or not reads_natively(filesystem):
        return [None] * len(paths)
    list_all = partial(_KERNEL.list_directories, [os.fsencode(path) for path in paths])
    return filesystem.run_natively("getdents", paths[0], list_all)


def read_files(filesystem: FileSystem, paths: Sequence[str]) -> list[bytes | None]:
    """Return the contents of these files.

    None stands for one that is missing, longer than 64 KiB, or not a regular file, and where
    `list_directories` has it.

    Args:
        filesystem: File operations.
        paths: Paths of the files, at most `PATHS_AT_ONCE`.
    """
    if _KERNEL is None or not paths or not reads_natively(filesystem):
        return [None] * len(paths)
    began_seconds = perf_counter()
    read_all = partial(_KERNEL.read_files, [os.fsencode(path) for path in paths])
    found = filesystem.run_natively("pread", paths[0], read_all)
    sizes = [len(octets) for octets in found if octets is not None]
    filesystem.note_reads(len(sizes), sum(sizes), perf_counter() - began_seconds)
    return found
