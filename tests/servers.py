"""Real servers for tests: a process on a free port, which a test can kill, stop and start again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import amqp_server
from tests.forked_servers import ForkedProcess, start_forked_server
from tests.limits import HANG_SECONDS

REPOSITORY = Path(amqp_server.__file__).resolve().parent.parent
_LISTENING = "listening on "
NO_MANAGEMENT = {"AMQP_SERVER_MANAGEMENT_PORT": "0", "AMQP_SERVER_METRICS_PORT": "0"}
"""Variables of a server without a management server: it would have to be started for nothing."""


class RunningServer:
    """One `python -m amqp_server` on a port that the system chose.

    Where nothing differs before the command line is read, the process is a fork of one that has
    the imports (`tests.forked_servers`): that takes a fifth of the time. It keeps everything that
    the server writes to standard error, over all its restarts. As a context manager it is killed
    at the end, by its own process id.

    Args:
        storage_path: Data directory; kept over restarts.
        options: Options of the command line, without `--port` and `--storage-path`.
        environment: Variables in addition to those of this process.
        interpreted: Runs the kernels uncompiled.
        module: Module that is run: the command, or a module of the tests that changes it.
        is_fork: False always starts Python anew, for tests of the command itself.
        open_files: Limit of open files, soft and hard; None for that of this process.

    Attributes:
        options: As given; may be changed between restarts.
        interpreted: As given; may be changed between restarts.
        open_files: As given; may be changed between restarts.
        host: Where it listens.
        port: Where it listens; another one after each restart.
        messages: Lines of standard error so far.
        may_fail: Set by a test whose server is meant to log errors; see `faults`.
    """

    def __init__(
        self,
        storage_path: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        interpreted: bool = False,
        open_files: int | None = None,
        module: str = "amqp_server",
        is_fork: bool = True,
    ) -> None:
        self._is_fork = is_fork
        self.open_files = open_files
        self._module = module
        self.storage_path = storage_path
        self.options = options
        self.host = "127.0.0.1"
        self.port = 0
        self.messages: list[str] = []
        self.may_fail = False
        self.interpreted = interpreted
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[str] | ForkedProcess | None = None
        self._reader: threading.Thread | None = None
        self._changed = threading.Condition()
        self._is_read_to_end = True

    def __enter__(self) -> Self:
        """Return the server as it is."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill what still runs."""
        self.kill()

    @property
    def address(self) -> tuple[str, int]:
        """Where to connect to."""
        return self.host, self.port

    @property
    def pid(self) -> int:
        """Process id of the last one that was started."""
        return self._started.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def faults(self) -> list[str]:
        """Lines of the log that a healthy server never writes."""
        return [
            line for line in self.messages if "level=error" in line or "Traceback (most" in line
        ]

    @property
    def resident_bytes(self) -> int:
        """Memory of its own, without mapped files."""
        return self._memory_bytes("RssAnon")

    @property
    def peak_bytes(self) -> int:
        """Most memory that it ever had, with mapped files."""
        return self._memory_bytes("VmHWM")

    def wait_for_memory(self, bytes_max: float, *, seconds_max: float = HANG_SECONDS) -> None:
        """Return when its resident memory is at most `bytes_max`.

        What the server has just finished with is freed a little later.

        Raises:
            AssertionError: It stays above.
        """
        deadline = time.monotonic() + seconds_max
        while (found := self.resident_bytes) > bytes_max:
            assert time.monotonic() < deadline, f"{found} bytes of memory, not {bytes_max:.0f}"
            time.sleep(0.01)

    def _memory_bytes(self, field: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return int(fields[field].split()[0]) * 1024

    def start(self) -> Self:
        """Start, and return when it listens.

        Raises:
            AssertionError: It ended instead, or took longer than `HANG_SECONDS`.
        """
        self.begin()
        line = self.wait_for_message(_LISTENING, seconds_max=HANG_SECONDS)
        self.host, _, port = line.removeprefix(_LISTENING).strip().rpartition(":")
        self.port = int(port)
        return self

    def begin(self) -> None:
        """Start the process without waiting for anything."""
        assert not self.is_running, "started twice"
        self._join()
        self._seen = len(self.messages)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AMQP_SERVER_")}
        if self.interpreted:
            inherited["AMQP_SERVER_PURE_PYTHON"] = "1"
        environment = {
            **inherited,
            **NO_MANAGEMENT,
            "PYTHONPATH": str(REPOSITORY),
            **self._environment,
        }
        arguments = ["--port", "0", "--storage-path", str(self.storage_path), *self.options]
        if self._can_fork:
            self._process = start_forked_server(arguments, self.storage_path.parent, environment)
        else:
            self._process = self._start_python(arguments, environment)
        self._is_read_to_end = False
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    @property
    def _can_fork(self) -> bool:
        """Whether nothing is asked for that the imports or the start of Python depend on."""
        is_plain = self._module == "amqp_server" and self.open_files is None
        return self._is_fork and is_plain and not (self._environment or self.interpreted)

    def _start_python(
        self, arguments: list[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", self._module]
        if self.open_files is not None:
            # The shell becomes the server: it is the same process.
            limited = f'ulimit -n {self.open_files} && exec "$@"'
            command = ["/bin/sh", "-c", limited, "sh", *command]
        return subprocess.Popen(
            [*command, *arguments],
            cwd=self.storage_path.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )

    def wait_for_message(self, text: str, *, seconds_max: float = HANG_SECONDS) -> str:
        """Return the first line since the last start that contains `text`, when it is there."""

        def found() -> str | None:
            return next((line for line in self.messages[self._seen :] if text in line), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._is_read_to_end, seconds_max)
            line = found()
        assert line is not None, f"no {text!r} in: {''.join(self.messages[self._seen :])}"
        return line

    def kill(self) -> None:
        """End the process as a crash would (SIGKILL), if it runs, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal and return at once."""
        self._started.send_signal(number)

    def terminate(self) -> int:
        """Stop it cleanly (SIGTERM) and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self, seconds_max: float = HANG_SECONDS) -> int:
        """Return the exit code when the process has ended.

        Raises:
            subprocess.TimeoutExpired: It did not end.
        """
        code = self._started.wait(seconds_max)
        self._join()
        return code

    def restart(self) -> Self:
        """Start again on the same data directory after an end of any kind."""
        return self.start()

    @property
    def _started(self) -> subprocess.Popen[str] | ForkedProcess:
        assert self._process is not None, "never started"
        return self._process

    def _read(self, process: subprocess.Popen[str] | ForkedProcess) -> None:
        assert process.stderr is not None, "stderr is a pipe"
        for line in process.stderr:
            with self._changed:
                self.messages.append(line)
                self._changed.notify_all()
        with self._changed:
            self._is_read_to_end = True
            self._changed.notify_all()

    def _join(self) -> None:
        """Take the rest of what an ended process wrote, and close the pipe."""
        if self._reader is not None and self._process is not None and self._process.stderr:
            self._reader.join(HANG_SECONDS)
            self._process.stderr.close()
            self._reader = None
