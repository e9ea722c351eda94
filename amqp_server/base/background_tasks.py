"""Tasks of the server that no caller awaits: each is awaited when the server stops."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine

logger = logging.getLogger("amqp_server.background_tasks")


class BackgroundTasks:
    """The running tasks of one server. The event loop owns it."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return the number of running tasks."""
        return len(self._running)

    def spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        """Run a coroutine in the background; an error that it raises is logged."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._done)

    async def wait(self, seconds_max: float) -> None:
        """Return when the tasks that run now have ended, or after `seconds_max`."""
        if self._running:
            await asyncio.wait(tuple(self._running), timeout=seconds_max)

    async def finish(self) -> None:
        """Return when all tasks have ended, also those that other tasks spawn."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    def cancel(self) -> None:
        """Cancel all tasks, because nothing that they do counts any more."""
        for task in tuple(self._running):
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background task failed task=%s", task.get_name(), exc_info=error)
