"""Signals by which an operator commands the server: SIGUSR1 and SIGHUP.

SIGUSR1 writes a checkpoint now, whatever the interval is. SIGHUP reads the TLS certificates and
keys again, and so does the management server.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING

from offsets import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.background_tasks import BackgroundTasks
    from amqp_server.children.management_process import ManagementProcess
    from amqp_server.connections.tls.reloading import CurrentContext
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
            tasks.spawn(_write_checkpoint(checkpointer))

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, write)


async def _write_checkpoint(checkpointer: Checkpointer) -> None:
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


def obey_reload_signal(
    context: CurrentContext | None, management: ManagementProcess | None, tasks: BackgroundTasks
) -> None:
    """Reload the files in the background at each signal; call it on the running loop.

    Without certificates the signal keeps its meaning: the terminal has gone.

    Args:
        context: Reads the files of AMQP, and logs what came of it; None: it has no TLS.
        management: The management server, which does the same; None if there is none.
        tasks: Tasks to which each reload is added.
    """
    has_https = management is not None and management.has_tls
    if context is None and not has_https:
        return

    async def reload() -> None:
        if management is not None:
            await management.reload_certificates()
        if context is not None:
            await context.reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: tasks.spawn(reload()))
