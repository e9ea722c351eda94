"""Reading in the background what rules have to know of recovered backlogs, queue by queue."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from amqp_server.worker_reads import READ_RETRY_SECONDS
from appendlog import LogError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.queue import Queue

logger = logging.getLogger(__name__)

READY_AT_ONCE = 4096
"""Messages made ready in one turn of the loop."""


async def load_messages(queues: Iterable[Queue]) -> None:
    """Load all backlogs that wait for it, the smallest first; afterwards no queue waits.

    Args:
        queues: All of the broker's, as they are after the start.
    """
    loading = waiting = sorted(
        (queue for queue in queues if queue.loading.is_loading),
        key=lambda queue: queue.loading.count,
    )
    try:
        while waiting:
            # A log that cannot be read holds up nobody else's.
            waiting = [queue for queue in waiting if not await _is_done_with(queue)]
            if waiting:
                await asyncio.sleep(READ_RETRY_SECONDS)
    finally:
        # The server is stopping: nobody may wait for what does not come.
        for queue in loading:
            queue.loading.abandon()


async def _is_done_with(queue: Queue) -> bool:
    """Load a backlog; return whether there is nothing more to try."""
    try:
        await _load(queue)
    except LogError as error:
        # Nothing is lost: the messages stay where they are, and the disk may be back.
        logger.error(  # noqa: TRY400 - one line says it all
            "backlog not read vhost=%s queue=%s error=%s",
            queue.virtual_host.name,
            queue.name,
            error,
        )
        return False
    except Exception:
        # A mistake of ours in one queue must not keep the others from starting.
        logger.exception("backlog not loaded queue=%s", queue.name)
        queue.loading.abandon()
    return True


async def _load(queue: Queue) -> None:
    """Read on where an earlier try ended, and make all ready.

    Raises:
        LogError: The log cannot be read now.
    """
    loading, started = queue.loading, time.monotonic()
    count, unread = loading.count, loading.unread
    if unread is None:
        return
    is_more = True
    while is_more and loading.count and not queue.is_deleted:
        is_more = await asyncio.to_thread(unread.read_some)
    if queue.is_deleted:
        return
    loading.take_over_attributes()
    is_more = True
    while is_more:
        is_more = loading.make_ready(READY_AT_ONCE)
        await asyncio.sleep(0)
    loading.finish()
    logger.info(
        "backlog loaded vhost=%s queue=%s messages=%d seconds=%.3f",
        queue.virtual_host.name,
        queue.name,
        count,
        time.monotonic() - started,
    )
