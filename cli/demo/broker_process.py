"""The broker of the demo: another process that is started, killed and started again."""

import re
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cli.demo.errors import DemoError
from cli.demo.program import command_line, environment, shown

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS: Final = 0.02
_LISTENING: Final = re.compile(r"^listening on \S+:(\d+)$", re.MULTILINE)
_SHOWN_CHARACTERS: Final = 2000


class BrokerProcess:
    """Broker on a free port. As a context manager it never outlives the `with` block.

    Args:
        arguments: Arguments of `amqp-server`.
        log_path: File for its standard error, over all its starts.

    Attributes:
        port: Port on which it listens, after `start`.
    """

    def __init__(self, arguments: list[str], log_path: Path) -> None:
        self.port = 0
        self._arguments = arguments
        self._log_path = log_path
        self._log_position = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Return the broker, which is not started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill the process if it is still running."""
        self.kill()

    @property
    def command(self) -> str:
        """Command line as a user would type it."""
        return shown(self._arguments)

    @property
    def pid(self) -> int:
        """Process id of the last start."""
        assert self._process is not None, "never started"
        return self._process.pid

    def start(self) -> None:
        """Start the process; return once it listens.

        Raises:
            DemoError: The process ended, or does not listen in time.
        """
        self._log_position = self._log_path.stat().st_size if self._log_path.exists() else 0
        with self._log_path.open("ab") as log:
            # In a session of its own: Ctrl-C is for the demo, which then ends its broker.
            self._process = subprocess.Popen(  # noqa: S603 - ourselves, no shell
                command_line(self._arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while (listening := _LISTENING.search(self.output)) is None:
            if self._process.poll() is not None:
                raise DemoError(f"the broker ended: {self.output[-_SHOWN_CHARACTERS:].strip()}")
            if time.monotonic() > deadline:
                raise DemoError(f"the broker does not listen after {START_SECONDS_MAX:.0f} s")
            time.sleep(_LOOK_SECONDS)
        self.port = int(listening[1])

    @property
    def output(self) -> str:
        """Output of the process since its last start."""
        with self._log_path.open("rb") as log:
            log.seek(self._log_position)
            return log.read().decode(errors="replace")

    def kill(self) -> None:
        """End the process like a crash (SIGKILL), if it is running, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the process cleanly (SIGTERM).

        Raises:
            DemoError: The process does not stop, or stops with another exit code than 0.
        """
        assert self._process is not None, "never started"
        self._process.terminate()
        try:
            exit_code = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"the broker does not stop in {STOP_SECONDS_MAX:.0f} s") from error
        if exit_code != 0:
            raise DemoError(
                f"the broker stopped with exit code {exit_code}: "
                f"{self.output[-_SHOWN_CHARACTERS:].strip()}"
            )
