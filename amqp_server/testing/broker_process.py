"""A broker in a process of its own, which a test can kill."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Final, Self

from amqp_server.testing.errors import BrokerProcessError, BrokerStateError
from amqp_server.testing.reserved_port import ReservedPort
from amqp_server.testing.temporary_directory import TemporaryDirectory, disk_directory
from amqp_server.testing.urls import amqp_url

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

HOST: Final = "127.0.0.1"
START_SECONDS_MAX: Final = 60.0
"""Seconds that a start may take before it counts as failed."""
STOP_SECONDS_MAX: Final = 30.0
"""Seconds that a clean stop may take before it counts as failed."""
SHOWN_LINES: Final = 20
"""Last lines of the log that an error shows."""
_LISTENING: Final = "listening on "
_NOT_STARTED: Final = "the broker process has not started: use it inside `with BrokerProcess()`"


class BrokerProcess:
    """A broker process on one port and one directory on the disk, with real syncs.

    As a context manager it runs inside the `with`. The process ends with this one, however that
    ends. The directory is removed at the end.

    Attributes:
        log: Lines that the process has written to standard error, over all its starts.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._port: ReservedPort | None = None
        self._directory: TemporaryDirectory | None = None

    @property
    def host(self) -> str:
        """Address at which the broker listens."""
        return HOST

    @property
    def port(self) -> int:
        """TCP port at which the broker listens; stays the same until `close`.

        Raises:
            BrokerStateError: The broker has not started yet, or is closed.
        """
        if self._port is None:
            raise BrokerStateError(_NOT_STARTED)
        return self._port.port

    @property
    def vhost(self) -> str:
        """Name of the virtual host that `url` names."""
        return "/"

    @property
    def url(self) -> str:
        """URL of the virtual host `/`, with the user `guest`.

        Raises:
            BrokerStateError: The broker has not started yet, or is closed.
        """
        return amqp_url(self.host, self.port, self.vhost)

    @property
    def storage_path(self) -> Path:
        """Data directory, by which commands such as `amqp-server stats` find the process.

        Raises:
            BrokerStateError: The broker has not started yet, or is closed.
        """
        if self._directory is None:
            raise BrokerStateError(_NOT_STARTED)
        return self._directory.path / "data"

    @property
    def pid(self) -> int:
        """Number of the process that runs.

        Raises:
            BrokerStateError: None runs.
        """
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the process; return when clients can connect.

        Raises:
            BrokerStateError: It runs already.
            BrokerProcessError: It ended instead.
        """
        if self.is_running:
            raise BrokerStateError(f"the broker process runs already at {self.url}")
        if self._directory is None:
            self._port = ReservedPort(HOST)
            self._directory = TemporaryDirectory(disk_directory())
        self._wait_for_end()
        listening = threading.Event()
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            (
                *(sys.executable, "-P", "-m", "amqp_server.testing.child"),
                *(str(self.port), str(self.storage_path)),
            ),
            # The child watches the other end of this pipe.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(
            target=self._read, args=(self._process, listening), name="amqp-broker-log", daemon=True
        )
        self._reader.start()
        if not listening.wait(START_SECONDS_MAX) or self._process.poll() is not None:
            self.kill()
            raise BrokerProcessError(f"the broker process did not start:\n{self._last_lines()}")
        return self

    def kill(self) -> None:
        """End the process as a crash does (SIGKILL); does nothing if none runs."""
        if self._process is not None:
            self._process.kill()
            self._wait_for_end()

    def stop(self) -> None:
        """Stop the process cleanly (SIGTERM).

        Raises:
            BrokerStateError: None runs.
            BrokerProcessError: The stop was not clean, or took longer than `STOP_SECONDS_MAX`.
        """
        process = self._running()
        process.terminate()
        try:
            code = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        if code != 0:
            raise BrokerProcessError(
                f"the broker process did not stop cleanly, exit code {code}:\n{self._last_lines()}"
            )

    def restart(self) -> None:
        """Start the process again on the same port and directory; stop it first if it runs."""
        if self.is_running:
            self.stop()
        self.start()

    def close(self) -> None:
        """Kill the process, and remove its directory; a second call does nothing."""
        self.kill()
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.remove()
        port, self._port = self._port, None
        if port is not None:
            port.release()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            raise BrokerStateError("the broker process does not run: call start() or restart()")
        return self._process

    def _wait_for_end(self) -> None:
        """Release what belongs to a process that has ended or was killed."""
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            assert self._reader is not None, "every process has one"
            self._reader.join()
            for stream in (process.stdin, process.stderr):
                assert stream is not None, "both are pipes"
                stream.close()

    def _read(self, process: subprocess.Popen[str], listening: threading.Event) -> None:
        assert process.stderr is not None, "it is a pipe"
        for line in process.stderr:
            self.log.append(line)
            if line.startswith(_LISTENING):
                listening.set()
        # It has ended: who waits for its start need not wait longer.
        process.wait()
        listening.set()

    def _last_lines(self) -> str:
        return "".join(self.log[-SHOWN_LINES:])
