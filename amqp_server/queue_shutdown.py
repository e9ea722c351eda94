"""Stops all queues: writes what is only in memory, then the last checkpoint."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from appendlog import CloseRequest, DeleteRequest

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.upkeep.checkpointer import Checkpointer
    from amqp_server.upkeep.compactor import Compactor
    from appendlog import Flusher


async def shut_queues_down(
    broker: Broker,
    compactor: Compactor,
    checkpointer: Checkpointer,
    flusher: Flusher,
    *,
    seconds_max: float,
) -> None:
    """Write what durable queues have only in memory, then the last checkpoint.

    Args:
        broker: Broker whose queues are stopped; no client uses them any more.
        compactor: Compactor, which starts no more rewrites.
        checkpointer: Writes the last checkpoint.
        flusher: Closes the logs of durable queues and removes those of transient ones.
        seconds_max: Seconds to wait for dead letters that are being forwarded.

    Raises:
        CheckpointFailedError: The disk refused the write; the stop is not a clean one.
    """
    queues = tuple(broker.queues())
    # A task for each of ten thousand idle queues would cost more than all of their work.
    forwarding = [queue for queue in queues if queue.forwarder is not None]
    for queue in queues:
        if queue.forwarder is None:
            await queue.drain()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds_max):
            await asyncio.gather(*(queue.drain() for queue in forwarding))
    behind = [queue for queue in queues if queue.is_journaled and not queue.is_synced]
    await asyncio.gather(*(queue.store.make_durable() for queue in behind))
    compactor.stop()
    await checkpointer.write_last()
    for queue in broker.queues():
        log = queue.store.log
        if not queue.is_journaled:
            flusher.submit(DeleteRequest(log))
        elif not log.is_unused:
            flusher.submit(CloseRequest(log))
