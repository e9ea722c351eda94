"""Threads for file work: one hop from the event loop for all files of a round.

A hop costs more than a file operation. So the worker thread does all the work of a round, and
shares out among threads the calls that wait for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

import aiofiles.os

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

THREADS_MAX: Final = 8
"""Enough for the file system to join the syncs; few enough not to keep the disk from others."""


class FileWorkers:
    """A few threads of the metadata store's own; belongs to one event loop.

    At most two pieces of work run at a time: `share_out` inside them needs the other threads.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, "metadata")

    async def run(self, work: Callable[[_Item], _Result], item: _Item) -> _Result:
        """Call a function in a thread and return its result; it may call `share_out`."""
        return await aiofiles.os.wrap(work)(item, executor=self._threads)

    def share_out(self, items: Sequence[_Item], work: Callable[[_Item], None]) -> None:
        """Call `work` for every item, in some threads at once; for use in what `run` runs.

        Raises:
            Exception: `work` raised; other items may have been worked on.
        """
        remaining = iter(items)

        def work_on() -> None:
            # `next` on a list's iterator is one step of the interpreter: no item comes twice.
            for item in remaining:
                work(item)

        others = [self._threads.submit(work_on) for _ in range(min(THREADS_MAX, len(items)) - 1)]
        try:
            work_on()
        finally:
            wait(others)
        for other in others:
            other.result()

    def close(self) -> None:
        """Let the threads end; nothing may be run afterwards."""
        self._threads.shutdown(wait=False)
