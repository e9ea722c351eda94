"""Threads for file operations: one switch from the event loop serves many files.

A switch to a thread costs more than a file operation. So one call does all the work of a round, and
divides the calls that wait for the disk among more threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

import aiofiles.os

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

THREADS_MAX: Final = 8
"""Threads: enough for the file system to merge syncs, few enough not to block other disk users."""


class FileWorkers:
    """A few threads that only the metadata store uses; belongs to one event loop.

    At most two calls of `run` may be active at a time: `share_out` inside them needs the other
    threads.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, "metadata")
        self._active: list[object] = []

    async def run(self, work: Callable[[_Item], _Result], item: _Item) -> _Result:
        """Call a function in a thread and return its result; the function may call `share_out`."""
        self._active.append(work)

        def run() -> _Result:
            try:
                return work(item)
            finally:
                self._active.pop()

        return await aiofiles.os.wrap(run)(executor=self._threads)

    def share_out(
        self,
        items: Sequence[_Item],
        work: Callable[[_Item], None],
        threads_max: int = THREADS_MAX,
    ) -> None:
        """Call `work` for every item, in several threads; only for use inside `run`.

        Args:
            items: What to call `work` with.
            work: Function that waits for the disk.
            threads_max: Maximum number of threads, including this one.

        Raises:
            Exception: `work` raised; it may have been called for other items too.
        """
        remaining = iter(items)

        def take_items() -> None:
            # `next` on a list's iterator is atomic in the interpreter, so no item is handled twice.
            for item in remaining:
                work(item)

        others = [self._threads.submit(take_items) for _ in range(min(threads_max, len(items)) - 1)]
        try:
            take_items()
        finally:
            wait(others)
        for other in others:
            other.result()

    def close(self) -> None:
        """Stop the threads; nothing may be run afterwards.

        Returns when they have ended, but does not wait for one that a hung disk holds.
        """
        self._threads.shutdown(wait=not self._active)
