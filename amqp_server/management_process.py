"""The process of the management server: started after the broker listens, and again when it dies.

The broker never waits for it. It passes settings and sockets, and logs what it reports. If the
process dies, the sockets stay open, so clients wait until the next one accepts them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import amqp_server
from amqp_server import __version__
from amqp_server.config import words
from amqp_server.tls.configured import management_tls

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig
    from amqp_server.management_sockets import ManagementSockets

logger = logging.getLogger(__name__)

FIRST_WAIT_SECONDS: Final = 0.1
WAIT_SECONDS_MAX: Final = 30.0
"""Longest wait before another start, after several that failed."""
SERVED_WAIT_SECONDS_MAX: Final = 3.0
"""Longest wait after a process that has served: its clients wait too."""
STEADY_SECONDS: Final = 30.0
"""A process that lived so long has not failed to start: the waits begin again."""
END_SECONDS_MAX: Final = 2.0
"""Seconds that the process has to end by itself when the broker stops."""
RELOAD_LINE: Final = b"reload certificates\n"
"""What the process reads after its settings, when the operator has sent SIGHUP."""
_LINE_BYTES_MAX: Final = 64 * 1024
_ENDED: Final = "it was told to"
_LEVELS: Final = {"warning": logging.WARNING, "error": logging.ERROR, "critical": logging.ERROR}


class ManagementProcess:
    """Keeps one management server running; does nothing without sockets.

    Args:
        config: Settings; not changed.
        sockets: What it serves; closed by their owner.

    Attributes:
        starts: How often the process has been started.
        is_serving: Whether the process has said that it serves.
    """

    def __init__(self, config: ServerConfig, sockets: ManagementSockets) -> None:
        self._config = config
        self._sockets = sockets
        self._process: subprocess.Popen[bytes] | None = None
        self._running: asyncio.Task[None] | None = None
        self._amqp_listeners: list[tuple[str, int, str]] = []
        self._has_served = False
        self.starts = 0
        self.is_serving = False

    @property
    def status(self) -> dict[str, Any] | None:
        """What `amqp-server status` shows of it; None if there is none."""
        if not self._sockets.sockets:
            return None
        urls = {"http": [], "metrics": []}  # type: dict[str, list[str]]
        for each in self._sockets.sockets:
            urls[each.kind].append(each.url)
        return {
            "urls": urls["http"],
            "metrics_urls": urls["metrics"],
            "is_serving": self.is_serving,
            "pid": None if self._process is None else self._process.pid,
            "starts": self.starts,
        }

    @property
    def has_tls(self) -> bool:
        """Whether it has certificates."""
        return any(each.is_tls for each in self._sockets.sockets)

    @property
    def listeners(self) -> list[dict[str, Any]]:
        """Protocol, host and port of every listener of the server."""
        found = [
            {"protocol": protocol, "host": host, "port": port}
            for host, port, protocol in self._amqp_listeners
        ]
        for each in self._sockets.sockets:
            protocol = "http/prometheus" if each.kind == "metrics" else "http" + "s" * each.is_tls
            found.append({"protocol": protocol, "host": each.host, "port": each.port})
        return found

    def start(self, amqp_listeners: list[tuple[str, int, str]]) -> None:
        """Let clients connect, and start the process; returns at once.

        Args:
            amqp_listeners: Address, port and protocol of each listener of the broker.

        Raises:
            StartupError: Another process has taken a port that was asked for.
        """
        self._sockets.listen()
        self._amqp_listeners = amqp_listeners
        if not self._sockets.sockets:
            return
        self._running = asyncio.create_task(self._keep_running(), name="management server")

    def reload_certificates(self) -> None:
        """Let the process read the files of its certificates again, if one runs."""
        if self.is_serving and self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError, BlockingIOError):
                self._process.stdin.write(RELOAD_LINE)

    async def stop(self) -> None:
        """End the process; kill it if it takes longer than `END_SECONDS_MAX`."""
        if self._running is None:
            return
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    async def _keep_running(self) -> None:
        wait_seconds = FIRST_WAIT_SECONDS
        try:
            while True:
                started = time.monotonic()
                reason = await self._run_once()
                if time.monotonic() - started >= STEADY_SECONDS:
                    wait_seconds = FIRST_WAIT_SECONDS
                longest = SERVED_WAIT_SECONDS_MAX if self._has_served else WAIT_SECONDS_MAX
                wait_seconds = min(wait_seconds, longest)
                # A service manager that stops the broker sends SIGTERM to this process as well.
                level = logging.INFO if reason == _ENDED else logging.WARNING
                logger.log(
                    level,
                    "management server ended reason=%s note=it starts again in %.1f s",
                    reason,
                    wait_seconds,
                )
                await asyncio.sleep(wait_seconds)
                wait_seconds *= 2
        finally:
            await asyncio.shield(asyncio.to_thread(self._end))

    async def _run_once(self) -> str:
        """Start the process and return why it has ended."""
        self._has_served = False
        try:
            process = self._process = self._spawn()
        except OSError as error:
            return f"cannot start: {error.strerror}"
        self.starts += 1
        assert process.stdin is not None, "a pipe"
        assert process.stdout is not None, "a pipe"
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), process.stdout
        )
        try:
            self._write_settings(process.stdin)
            while line := await reader.readline():
                self._take_report(line)
        except ValueError:
            return "it wrote a line that is too long"
        finally:
            self.is_serving = False
            transport.close()
        # Its standard output ends a moment before it does.
        code = await asyncio.to_thread(process.wait)
        process.stdin.close()
        if code == 0:
            return _ENDED
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the process.

        In this thread: the kernel ends the process when the thread that started it ends.
        """
        descriptors = [each.bound.fileno() for each in self._sockets.sockets]
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "amqp_server.management"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # All other descriptors close by themselves. To close those of 10,000 connections
                # one by one would hold the event loop for 20 ms.
                close_fds=False,
                env=_environment(),
                bufsize=0,
            )
        finally:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)

    def _write_settings(self, pipe: IO[bytes]) -> None:
        """Write the settings: fewer bytes than a pipe holds, so that this cannot block."""
        config = self._config
        settings = {
            "storage_path": str(config.storage_path.absolute()),
            "broker_pid": os.getpid(),
            "listeners": [
                {
                    "descriptor": each.bound.fileno(),
                    "kind": each.kind,
                    "is_tls": each.is_tls,
                    "host": each.host,
                    "port": each.port,
                }
                for each in self._sockets.sockets
            ],
            "tls": asdict(management_tls(config)),
            "cors_origins": words(config.management_cors_origin),
            "node_name": f"rabbit@{socket.gethostname().partition('.')[0]}",
            "server_version": __version__,
            "presented_version": config.present_version,
            "amqp_listeners": self._amqp_listeners,
        }
        with suppress(BrokenPipeError):
            pipe.write(json.dumps(settings).encode() + b"\n")

    def _take_report(self, line: bytes) -> None:
        """Log what the process reports."""
        try:
            fields = json.loads(line)
        except ValueError:
            fields = {"level": "warning", "text": repr(line[:200])}
        if fields.get("serving"):
            self.is_serving = self._has_served = True
            urls = " ".join(each.url for each in self._sockets.sockets)
            logger.info("management server started starts=%d urls=%s", self.starts, urls)
            return
        level = _LEVELS.get(str(fields.get("level")), logging.INFO)
        logger.log(level, "management: %s", fields.get("text"))

    def _end(self) -> None:
        """Close its standard input, which ends it, and wait; in a worker."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None, "a pipe"
        process.stdin.close()
        try:
            process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """Return the environment: variables of settings may hold passwords that it does not need."""
    found = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("AMQP_SERVER_", "RABBITMQ_"))
    }
    home = Path(amqp_server.__file__).parent.parent
    if home.name not in ("site-packages", "dist-packages"):
        # Run from a checkout, where only the present directory leads to the package.
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), found.get("PYTHONPATH"))))
    return found
