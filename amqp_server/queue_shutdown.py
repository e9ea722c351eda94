"""The end of all queues at a stop: what is in memory only goes to the disk, then the last word."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from appendlog import CloseRequest, DeleteRequest

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.checkpointer import Checkpointer
    from amqp_server.compactor import Compactor
    from appendlog import Flusher


async def shut_queues_down(
    broker: Broker,
    compactor: Compactor,
    checkpointer: Checkpointer,
    flusher: Flusher,
    *,
    seconds_max: float,
) -> None:
    """Write what durable queues hold in memory only, and the last checkpoint.

    Args:
        broker: Whose queues; nobody uses them any more.
        compactor: Is stopped.
        checkpointer: Has the last word.
        flusher: Closes the logs, and removes those of queues that do not survive.
        seconds_max: How long to wait for what is leaving its queue.

    Raises:
        CheckpointFailedError: The disk refused; the stop is not a clean one.
    """
    queues = tuple(broker.queues())
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds_max):
            await asyncio.gather(*(queue.drain() for queue in queues))
    journaled = [queue for queue in queues if queue.is_journaled]
    await asyncio.gather(*(queue.store.make_durable() for queue in journaled))
    compactor.stop()
    await checkpointer.write_last()
    for queue in broker.queues():
        request = CloseRequest if queue.is_journaled else DeleteRequest
        flusher.submit(request(queue.store.log))
