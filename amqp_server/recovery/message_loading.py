"""Loads the attributes of recovered messages in the background, queue by queue."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from amqp_server.upkeep.worker_reads import READ_RETRY_SECONDS
from appendlog import LogError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.queue import Queue

logger = logging.getLogger("amqp_server.message_loading")

READY_AT_ONCE = 4096
"""Messages that one turn of the event loop makes ready."""


async def load_messages(queues: Iterable[Queue]) -> None:
    """Load the messages of all queues that wait for it, the shortest queue first.

    When this returns or is cancelled, no queue waits any more.

    Args:
        queues: All queues of the broker after the start.
    """
    loading = waiting = sorted(
        (queue for queue in queues if queue.loading.is_loading),
        key=lambda queue: queue.loading.count,
    )
    try:
        while waiting:
            # Try each queue once a round, so that an unreadable log delays no other queue.
            waiting = [queue for queue in waiting if not await _is_done_with(queue)]
            if waiting:
                await asyncio.sleep(READ_RETRY_SECONDS)
    finally:
        # The server may be stopping: end the waiting of every caller.
        for queue in loading:
            queue.loading.abandon()


async def _is_done_with(queue: Queue) -> bool:
    """Load one queue's messages; return False if reading must be tried again."""
    try:
        await _load(queue)
    except LogError as error:
        # Nothing is lost: the messages stay in the log, and the disk may work again later.
        logger.error(  # noqa: TRY400 - one line says it all
            "queue not loaded vhost=%s queue=%s error=%s",
            queue.virtual_host.name,
            queue.name,
            error,
        )
        return False
    except Exception:
        # A programming error in one queue must not keep the others from loading.
        logger.exception("queue not loaded queue=%s", queue.name)
        queue.loading.abandon()
    return True


async def _load(queue: Queue) -> None:
    """Continue reading where an earlier attempt ended, then make all messages ready.

    Raises:
        LogError: The log cannot be read now.
    """
    loading = queue.loading
    started = time.monotonic()
    count = loading.count
    unread = loading.unread
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
        is_more = loading.make_ready(queue.ready, READY_AT_ONCE)
        await asyncio.sleep(0)
    loading.finish(queue)
    logger.info(
        "queue loaded vhost=%s queue=%s messages=%d seconds=%.3f",
        queue.virtual_host.name,
        queue.name,
        count,
        time.monotonic() - started,
    )
