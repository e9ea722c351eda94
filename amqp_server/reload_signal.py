"""SIGHUP: reads the TLS certificates and keys again."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.background_tasks import BackgroundTasks
    from amqp_server.tls.reloading import CurrentContext


def obey_reload_signal(context: CurrentContext, tasks: BackgroundTasks) -> None:
    """Reload the files in the background at each signal; call it on the running loop.

    Args:
        context: Reads the files, and logs what came of it.
        tasks: Tasks to which each reload is added.
    """

    async def reload() -> None:
        await context.reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: tasks.spawn(reload()))
