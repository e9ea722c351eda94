"""The server as a process: signals, exit code, the interpreter's settings."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

import uvloop

from amqp_server.checkpoint_signal import ignore_checkpoint_signal, obey_checkpoint_signal
from amqp_server.open_files import claim_open_files, refuse_start_without_files
from amqp_server.server import Server

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig

logger = logging.getLogger(__name__)
announcements = logging.getLogger(f"{__name__}.announcements")
"""Events that are logged at every `--log-level`."""
announcements.setLevel(logging.INFO)

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long the flusher's thread may wait for the interpreter after each system call.

The default of 5 ms would be added to every confirm while the loop is busy.
"""

YOUNG_OBJECTS = 5_000
"""Objects made between two looks for garbage among the young ones (Python's own default is 700).

Each look walks what was made since, and every hundredth walks everything: thousands of queues.
A client that declared them had a quarter of the server's time spent on that. What closed
connections leave behind stays up to 500,000 objects longer: some thousand connections' worth.
"""


async def serve(config: ServerConfig) -> bool:
    """Run a server until SIGTERM or SIGINT; a second signal ends the process at once.

    Returns:
        Whether it stopped cleanly.

    Raises:
        StartupError: It cannot start.
    """
    server = Server(config)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    await server.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    obey_checkpoint_signal(server)
    host, port = server.address
    announce(config.log_format, host, port)
    await stopping.wait()
    logger.info("stopping")
    return await server.stop()


def announce(log_format: str, host: str, port: int) -> None:
    """Write to standard error that clients can connect.

    Args:
        log_format: `text` for the line `listening on HOST:PORT`, `json` for a log event, so that
            every line of the log is one object.
        host: Address that the server listens on.
        port: TCP port that the server listens on.
    """
    if log_format == "json":
        announcements.info("listening host=%s port=%d", host, port)
    else:
        print(f"listening on {host}:{port}", file=sys.stderr, flush=True)  # noqa: T201 - the one line users wait for


def run(config: ServerConfig) -> int:
    """Run a server on uvloop and return the process's exit code.

    Raises:
        StartupError: It cannot start.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    # What imports have made stays. To look for garbage among it would hold the loop for 10 to 20 ms
    # each time that the collector comes to its oldest generation.
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    ignore_checkpoint_signal()
    try:
        return 0 if uvloop.run(serve(claim_open_files(config))) else 1
    except OSError as error:
        refuse_start_without_files(error, error)
        raise
