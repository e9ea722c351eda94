"""The command as a process, which a test can kill and start again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY


class Migration:
    """`amqp-server migrate --json` into the server of a data directory.

    Args:
        storage_path: Data directory of the server.
        options: Options of the command, without the data directory.
        output: Directory for what the runs write.
    """

    def __init__(self, storage_path: Path, options: Sequence[str], output: Path) -> None:
        self._command = [
            *(sys.executable, "-P", "-m", "amqp_server", "migrate"),
            *("--storage-path", str(storage_path), "--json", *options),
        ]
        self._output = output
        self._runs = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start a run."""
        self._runs += 1
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self._output,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            )

    def kill(self) -> None:
        """End the run as a crash would, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        assert self._process is not None, "not started"
        self._process.send_signal(signal.SIGINT)

    def wait(self, seconds_max: float = HANG_SECONDS) -> int:
        """Return the exit code of the run when it has ended."""
        assert self._process is not None, "not started"
        return self._process.wait(seconds_max)

    @property
    def is_running(self) -> bool:
        """Whether the run has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def errors(self) -> str:
        """What the run has written to standard error."""
        return self._stderr.read_text()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The objects that the run has written so far."""
        whole = self._stdout.read_text().split("\n")[:-1]
        return [json.loads(line) for line in whole]

    @property
    def report(self) -> dict[str, Any]:
        """The report of the run."""
        last = self.events[-1]
        assert last["event"] == "report", self.errors
        return last

    @property
    def _stdout(self) -> Path:
        return self._output / f"migrate-{self._runs}.jsonl"

    @property
    def _stderr(self) -> Path:
        return self._output / f"migrate-{self._runs}.txt"
