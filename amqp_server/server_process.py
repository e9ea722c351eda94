"""The server as an operating system process: signals, exit code, interpreter settings."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import uvloop

from amqp_server.base.garbage_collection import collector, no_collections
from amqp_server.compiled_loop import loop as compiled_loop
from amqp_server.connections.client_listeners import TLS
from amqp_server.greeting import greeting
from amqp_server.operator_signals import (
    ignore_checkpoint_signal,
    obey_checkpoint_signal,
    obey_reload_signal,
)
from amqp_server.protocol import framing
from amqp_server.service_manager import ServiceManager
from amqp_server.start_and_stop import start
from amqp_server.upkeep.allocator import keep_freed_memory
from amqp_server.upkeep.open_file_limit import claim_open_files, refuse_start_without_files
from amqp_server.upkeep.resource_sensor import available_memory_bytes
from appendlog.layout import records
from metadata.data_format import FORMAT_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from amqp_server.base.config import ServerConfig
    from amqp_server.greeting import Greeting
    from appendlog import FileSystem

logger = logging.getLogger("amqp_server.server_process")
announcements = logging.getLogger("amqp_server.server_process.announcements")
"""Logger of events that are logged at every `--log-level`."""
announcements.setLevel(logging.INFO)

COMPLETE = "Server startup complete; 0 plugins started."
"""RabbitMQ's words for a server that is ready; testcontainers and others wait for them."""
SWITCH_INTERVAL_SECONDS = 0.0005
"""Seconds that the flusher's thread may wait for the interpreter after each system call.

Python's default of 5 ms would delay every confirm while the event loop is busy.
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Parts of a process beside its settings; the defaults are those of `amqp-server`.

    Attributes:
        filesystem: File operations for definitions, logs and checkpoints; None for the system's.
        announce: Called with host and port when clients can connect; None calls nothing.
        watch: Coroutine function that returns when the server must stop, beside signals; None if
            only signals stop it.
    """

    filesystem: FileSystem | None = None
    announce: Callable[[str, int], None] | None = None
    watch: Callable[[], Coroutine[None, None, None]] | None = None


async def serve(config: ServerConfig, surroundings: Surroundings, manager: ServiceManager) -> bool:
    """Run a server until SIGTERM or SIGINT; a second signal ends the process at once.

    Args:
        config: Settings; not changed.
        surroundings: What the process has beside them.
        manager: Learns when clients can connect, that event loop and disk do not hang, and of the
            stop.

    Returns:
        Whether it stopped cleanly.

    Raises:
            StartupError: The server cannot start.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    warn_if_interpreted()
    is_new = not (config.storage_path / FORMAT_NAME).exists()
    with no_collections():
        running = await start(config, surroundings.filesystem)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    server = running.server
    obey_checkpoint_signal(server.checkpointer, server.tasks, lambda: server.connections.is_closing)
    host, port = running.address
    for each_host, each_port, protocol in running.listening:
        announce(config.log_format, each_host, each_port, is_tls=protocol == TLS)
    obey_reload_signal(running.listeners.context, running.management, server.tasks)
    if surroundings.announce is not None:
        surroundings.announce(host, port)
    elif surroundings.watch is None:
        greet(config.log_format, greeting(running, config, is_new=is_new))
        announce_complete(config.log_format)
    manager.ready(f"listening on {host}:{port}")
    living = loop.create_task(
        manager.keep_alive(lambda: server.alarms.stall is None), name="signs of life"
    )
    watching = None if surroundings.watch is None else loop.create_task(surroundings.watch())
    if watching is not None:
        watching.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    if watching is not None:
        watching.cancel()
    logger.info("stopping")
    manager.stopping()
    try:
        with no_collections():
            return await running.stop()
    finally:
        living.cancel()


def warn_if_interpreted() -> None:
    """Log a warning if something is interpreted that nobody wants to be: pip does not show it."""
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1":
        return
    kernels = {"framing": framing.COMPILED, "records": records.COMPILED}
    parts = [name for name, is_compiled in kernels.items() if not is_compiled]
    if compiled_loop.reason:
        parts.insert(0, f"loop ({compiled_loop.reason})")
    if parts:
        logger.warning("slower than it can be: not compiled interpreted=%r", ", ".join(parts))


def announce(log_format: str, host: str, port: int, *, is_tls: bool = False) -> None:
    """Report on standard error that clients can connect.

    Args:
        log_format: `text` writes the line `listening on HOST:PORT`, or `listening with TLS on
            HOST:PORT`; `json` writes a log event, so that every line of the log is one object.
        host: Address that the server listens on.
        port: TCP port that the server listens on.
        is_tls: Whether clients have to speak TLS there.
    """
    if log_format == "json":
        if is_tls:
            announcements.info("listening with TLS host=%s port=%d", host, port)
        else:
            announcements.info("listening host=%s port=%d", host, port)
    else:
        how = "listening with TLS on" if is_tls else "listening on"
        print(f"{how} {host}:{port}", file=sys.stderr, flush=True)  # noqa: T201 - the one line users wait for


def greet(log_format: str, told: Greeting) -> None:
    """Tell on standard error what runs, unless the log level leaves out what is of interest.

    Args:
        log_format: `text` writes four lines for people, `json` one event.
        told: What to tell.
    """
    if log_format == "json":
        logger.info(
            "ready server=%s data=%s page=%s login=%s",
            told.server,
            told.data,
            told.page,
            told.login,
        )
    elif logger.isEnabledFor(logging.INFO):
        print(told.text, file=sys.stderr, flush=True)  # noqa: T201 - for people, as the line above


def announce_complete(log_format: str) -> None:
    """Write to standard output that the server is ready, as RabbitMQ does: programs wait for it.

    Args:
        log_format: `text` writes RabbitMQ's line, `json` an object on one line with the same text.
    """
    line = COMPLETE
    if log_format == "json":
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps(
            {
                "time": moment,
                "level": "info",
                "logger": "amqp_server.server_process",
                "event": COMPLETE,
            }
        )
    # Who has closed standard output, or never had one, waits for nothing there. A buffer would try
    # again at the end of the process.
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.write(sys.stdout.fileno(), f"{line}\n".encode())


def run(config: ServerConfig, surroundings: Surroundings | None = None) -> int:
    """Run a server on uvloop and return the process's exit code.

    Args:
        config: Settings; not changed.
        surroundings: What the process has beside them.

    Raises:
            StartupError: The server cannot start.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    collector.start()
    keep_freed_memory(available_memory_bytes(), os.environ)
    ignore_checkpoint_signal()
    try:
        config = claim_open_files(config)
        manager = ServiceManager.of(os.environ)
        serving = serve(config, surroundings or Surroundings(), manager)
        return 0 if uvloop.run(serving) else 1
    except OSError as error:
        refuse_start_without_files(error, error)
        raise
