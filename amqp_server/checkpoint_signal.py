"""SIGUSR1: writes a checkpoint now, whatever the interval is."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING

from offsets import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.background_tasks import BackgroundTasks
    from amqp_server.upkeep.checkpointer import Checkpointer

logger = logging.getLogger("amqp_server.checkpoint_signal")


def ignore_checkpoint_signal() -> None:
    """Ignore the signal until the server has started: by default it ends the process."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def obey_checkpoint_signal(
    checkpointer: Checkpointer, tasks: BackgroundTasks, is_stopping: Callable[[], bool]
) -> None:
    """Write a checkpoint in the background at each signal; call it on the running loop.

    Args:
        checkpointer: Writes the checkpoints.
        tasks: Tasks to which each write is added.
        is_stopping: Returns whether the server stops; the signal is ignored then.
    """

    def write() -> None:
        if not is_stopping():
            tasks.spawn(_write(checkpointer))

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, write)


async def _write(checkpointer: Checkpointer) -> None:
    try:
        report = await checkpointer.write_now()
    except OffsetsError as error:
        logger.error("checkpoint failed error=%s", error)  # noqa: TRY400 - one line says it all
        return
    logger.info(
        "checkpoint written queues=%d bytes=%d generation=%d seconds=%.3f",
        report.queues,
        report.written_bytes,
        report.generation,
        report.seconds,
    )
