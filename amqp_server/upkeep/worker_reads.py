"""Reads logs in worker threads and delivers the results on the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from appendlog import ReadResult

READ_RETRY_SECONDS = 1.0
"""Seconds to wait after a log could not be read."""


class WorkerReads:
    """Runs reads in the worker threads of the running loop. The event loop owns it.

    Attributes:
        under_way: Number of reads whose results have not arrived. A read that failed has.
    """

    def __init__(self) -> None:
        self.under_way = 0

    def read(
        self, read: Callable[[], ReadResult], arrived: Callable[[ReadResult | Exception], None]
    ) -> None:
        """Read in a worker thread.

        Args:
            read: Function that reads and blocks; called in the worker.
            arrived: Called on the loop with the result, or after a pause with the error.
        """
        loop = asyncio.get_running_loop()

        def done(future: asyncio.Future[ReadResult]) -> None:
            self.under_way -= 1
            error = future.exception()
            if error is None:
                arrived(future.result())
            elif isinstance(error, Exception):
                # The caller retries after an error: without a pause a broken disk would keep the
                # loop busy.
                loop.call_later(READ_RETRY_SECONDS, arrived, error)

        self.under_way += 1
        loop.run_in_executor(None, read).add_done_callback(done)
