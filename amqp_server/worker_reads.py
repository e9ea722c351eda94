"""Reads of logs by the executor's threads; what they find comes back on the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from appendlog import ReadResult

READ_RETRY_SECONDS = 1.0
"""Pause after a log could not be read."""


def read_in_worker(
    read: Callable[[], ReadResult], arrived: Callable[[ReadResult | Exception], None]
) -> None:
    """Read in a worker of the running loop.

    Args:
        read: Blocks; called in the worker.
        arrived: Called on the loop with what was read, or after a pause with what went wrong.
    """
    loop = asyncio.get_running_loop()

    def done(future: asyncio.Future[ReadResult]) -> None:
        error = future.exception()
        if error is None:
            arrived(future.result())
        elif isinstance(error, Exception):
            # Whoever asked will ask again: a broken disk must not keep the loop busy.
            loop.call_later(READ_RETRY_SECONDS, arrived, error)

    loop.run_in_executor(None, read).add_done_callback(done)
