"""SIGHUP: reads the TLS certificates and keys again, and so does the management server."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.base.background_tasks import BackgroundTasks
    from amqp_server.children.management_process import ManagementProcess
    from amqp_server.connections.tls.reloading import CurrentContext


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
