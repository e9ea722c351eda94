"""A process that the broker starts, listens to, starts again when it dies, and ends.

The broker never waits for it. It writes lines to its standard input, the settings first, and reads
its reports from its standard output, a JSON object a line. The other end is
`amqp_server.base.child_main`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

import amqp_server

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_WAIT_SECONDS: Final = 0.1
WAIT_SECONDS_MAX: Final = 30.0
"""Longest wait before another start, after several that failed."""
WORKED_WAIT_SECONDS_MAX: Final = 3.0
"""Longest wait after a process that has worked: its clients wait too."""
STEADY_SECONDS: Final = 30.0
"""A process that lived so long has not failed to start: the waits begin again."""
END_SECONDS_MAX: Final = 2.0
"""Seconds that the process has to end by itself when the broker stops."""
_LINE_BYTES_MAX: Final = 64 * 1024
_ENDED: Final = "it was told to"
_LEVELS: Final = {"warning": logging.WARNING, "error": logging.ERROR, "critical": logging.ERROR}


class ChildOwner(Protocol):
    """The part of the broker for which a process works."""

    def descriptors(self) -> Sequence[int]:
        """Return the descriptors that the process inherits."""

    def settings(self) -> dict[str, Any]:
        """Return the first line for a new process: fewer bytes than a pipe holds."""

    def take_report(self, fields: dict[str, Any]) -> bool:
        """Handle a report; return False if it is for the log."""

    def process_ended(self) -> None:
        """Note that no process is running."""


class ChildProcess:
    """Keeps one process running, from `start` to `stop`.

    Args:
        name: Name of the process, for the log.
        module: Module that it runs.
        owner: For whom it works.
        logger: Logger for what it reports.

    Attributes:
        starts: How often the process has been started.
    """

    def __init__(self, name: str, module: str, owner: ChildOwner, logger: logging.Logger) -> None:
        self._name = name
        self._module = module
        self._owner = owner
        self._logger = logger
        self._process: subprocess.Popen[bytes] | None = None
        self._running: asyncio.Task[None] | None = None
        # Whether the present process, or the last one, has reported something to its owner.
        self._has_worked = False
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Its process id; None before the first start."""
        return None if self._process is None else self._process.pid

    @property
    def is_started(self) -> bool:
        """Whether it is kept running."""
        return self._running is not None

    async def send(self, octets: bytes) -> None:
        """Write lines to the process; they are lost if it has ended, as the next one is started.

        A worker writes, because a pipe may be full.
        """
        process = self._process
        if process is not None and process.stdin is not None:
            await asyncio.to_thread(_write, process.stdin, octets)

    def start(self) -> None:
        """Start it; returns at once."""
        if self._running is None:
            self._running = asyncio.create_task(self._keep_running(), name=self._name)

    async def start_again(self) -> None:
        """End the process, so that the next one gets other settings and descriptors."""
        await asyncio.to_thread(_end, self._process)

    async def stop(self) -> None:
        """End it; kill it if it takes longer than `END_SECONDS_MAX`."""
        running = self._running
        if running is None:
            return
        if not running.cancelling():
            running.cancel()
        # A caller that is cancelled here ends, and the process too: the next call waits for that.
        await asyncio.wait([running])
        if self._running is running:
            self._running = None

    async def _keep_running(self) -> None:
        wait_seconds = FIRST_WAIT_SECONDS
        try:
            while True:
                started = time.monotonic()
                reason = await self._run_once()
                if time.monotonic() - started >= STEADY_SECONDS:
                    wait_seconds = FIRST_WAIT_SECONDS
                longest = WORKED_WAIT_SECONDS_MAX if self._has_worked else WAIT_SECONDS_MAX
                wait_seconds = min(wait_seconds, longest)
                # A service manager that stops the broker sends SIGTERM to this process as well.
                level = logging.INFO if reason == _ENDED else logging.WARNING
                self._logger.log(
                    level,
                    "%s ended reason=%s note=it starts again in %.1f s",
                    self._name,
                    reason,
                    wait_seconds,
                )
                await asyncio.sleep(wait_seconds)
                wait_seconds *= 2
        finally:
            await asyncio.shield(asyncio.to_thread(_end, self._process))

    async def _run_once(self) -> str:
        """Start the process and return why it has ended."""
        self._has_worked = False
        try:
            process = self._process = self._spawn()
        except OSError as error:
            return f"cannot start: {error.strerror}"
        self.starts += 1
        assert process.stdin is not None, "a pipe"
        assert process.stdout is not None, "a pipe"
        # Before anything else is sent.
        _write(process.stdin, json.dumps(self._owner.settings()).encode() + b"\n")
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), process.stdout
        )
        try:
            while line := await reader.readline():
                self._take_report(line)
        except ValueError:
            return "it wrote a line that is too long"
        finally:
            self._owner.process_ended()
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
        descriptors = self._owner.descriptors()
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)
        try:
            return subprocess.Popen(  # noqa: S603 - a module of ours
                [sys.executable, "-P", "-m", self._module],
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

    def _take_report(self, line: bytes) -> None:
        """Pass on what the process reports, or log it."""
        try:
            fields = json.loads(line)
        except ValueError:
            fields = {"level": "warning", "text": repr(line[:200])}
        if self._owner.take_report(fields):
            self._has_worked = True
        else:
            level = _LEVELS.get(str(fields.get("level")), logging.INFO)
            self._logger.log(level, "%s: %s", self._name, fields.get("text"))


def _write(pipe: IO[bytes], octets: bytes) -> None:
    """Write to the standard input of a process; do nothing if it has ended."""
    view = memoryview(octets)
    with suppress(OSError, ValueError):
        while view:
            view = view[pipe.write(view) :]


def _end(process: subprocess.Popen[bytes] | None) -> None:
    """Close its standard input, which ends it, and wait; in a worker."""
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
