"""Reading files into the page cache before a start needs them.

A start opens many small files, one after the other: for each it would wait for the disk. Several
threads that wait beside each other read them several times as fast. They need no interpreter: with
its lock, each would wait for the others after every system call.
"""

import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Final

from appendlog.layout.builds import chosen_build

THREADS: Final = 8
"""Reads in flight: a disk in the machine needs a few, a volume in the network more."""

_LIMIT_MIN: Final = 512
"""Limit of open files that leaves enough to others: each thread may have four files open."""

_NICENESS: Final = 10
"""Where nothing has to be read from the disk, they must not take the processor from the others."""

PATHS_AT_ONCE: Final = 32
"""Paths that a thread reads before it looks whether it is to stop."""


def _load_compiled() -> Callable[[list[bytes]], int] | None:
    # Its system calls are Linux'.
    if sys.platform != "linux":
        return None
    kernel = import_module("appendlog.files._read_ahead_c")
    read: Callable[[list[bytes]], int] = kernel.read_ahead
    return read


_READ, _ = chosen_build(_load_compiled, None)

READERS: Final = 2 if _READ is None else 1
"""Threads that should read many small files.

If nobody reads ahead, one parses while the other waits for the disk. If somebody does, none waits,
and two would only take the interpreter's lock from each other at every file operation.
"""


class ReadAhead:
    """Threads that read files into the page cache; without a compiled kernel they do nothing.

    Of each file they read the first 4 KiB and the last, of the last segment of a log the last
    68 KiB. They follow no links below a tree's root, and pass over what cannot be read: who needs
    it finds out.

    Attributes:
        read_bytes: Octets read by the threads that have ended.
    """

    def __init__(self) -> None:
        self.read_bytes = 0
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_stopped = False

    def start(self, trees: Sequence[tuple[Path, int]]) -> None:
        """Begin to read the files of some trees of directories; one that is missing is empty.

        Does nothing where the process may open few files only.

        Args:
            trees: Each with the number of levels of names, >= 1, by which its files or directories
                are divided among the threads. They read up to three levels below.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if _READ is None or resource.RLIM_INFINITY != limit < _LIMIT_MIN:
            return
        paths = (path for root, levels in trees for path in _below(os.fsencode(root), levels))
        for number in range(THREADS):
            # They end with the process: a disk that hangs does not keep it alive.
            thread = threading.Thread(
                target=self._run, args=(_READ, paths), name=f"read-ahead-{number}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                # No thread left: what needs one says so.
                return
            self._threads.append(thread)

    def stop(self) -> None:
        """Stop reading; does not wait for the disk."""
        self._is_stopped = True

    def join(self) -> None:
        """Wait until all is read."""
        for thread in self._threads:
            thread.join()

    def _run(self, read: Callable[[list[bytes]], int], paths: Iterator[bytes]) -> None:
        octets = 0
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._is_stopped:
            with self._lock:
                some = list(islice(paths, PATHS_AT_ONCE))
            if not some:
                break
            octets += read(some)
        with self._lock:
            self.read_bytes += octets


def _below(path: bytes, levels: int) -> Iterator[bytes]:
    """Yield the paths that lie some levels below another one."""
    try:
        with os.scandir(path) as entries:
            found = [(each.path, each.is_dir(follow_symlinks=False)) for each in entries]
    except OSError:
        return
    for entry, is_directory in found:
        if levels == 1:
            yield entry
        elif is_directory:
            yield from _below(entry, levels - 1)
