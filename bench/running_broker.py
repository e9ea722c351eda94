"""A running broker, and the start and stop of any server process."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from bench.broker_url import BrokerUrl
from bench.errors import BrokerStartError

_LOOK_SECONDS: Final = 0.005
_STOP_SECONDS_MAX: Final = 120
_TAIL_BYTES: Final = 2_000

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that is ready for clients.

    Attributes:
        name: Name in the report.
        url: Address of the broker.
        pid: Id of the broker's process; None if it is not on this machine.
        tools: Directory with its `rabbitmqctl` and `rabbitmq-diagnostics`; None if it has none.
    """

    name: str
    url: BrokerUrl
    pid: int | None
    tools: Path | None = None


@contextmanager
def server_process(
    name: str, command: Sequence[str], environment: Mapping[str, str], output: Path, cwd: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server in a session of its own; stop it by its process id at the end of the `with`.

    Args:
        name: Name in errors.
        command: Program and arguments.
        environment: All environment variables of the server.
        output: File for the server's standard output and error.
        cwd: Current directory of the server.

    Raises:
        BrokerStartError: The program cannot be started.
    """
    with output.open("wb") as sink:
        try:
            # In a session of its own, the server does not get Ctrl-C: the benchmark stops it.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env=environment,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise BrokerStartError(name, str(error)) from error
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(
    name: str,
    process: subprocess.Popen[bytes],
    output: Path,
    try_ask: Callable[[], _Answer | None],
    seconds_max: float,
) -> _Answer:
    """Ask a starting server until it answers, and return the answer.

    Args:
        name: Name in errors.
        process: Process of the server.
        output: File with the server's output; its end goes into the error.
        try_ask: Returns the answer, or None if there is none yet.
        seconds_max: Longest time to ask.

    Raises:
        BrokerStartError: The server ended, or was not ready in time.
    """
    deadline = time.monotonic() + seconds_max
    while (answer := try_ask()) is None:
        if process.poll() is not None:
            raise BrokerStartError(name, f"exit status {process.returncode}: {_tail(output)}")
        if time.monotonic() > deadline:
            raise BrokerStartError(name, f"not ready after {seconds_max} s: {_tail(output)}")
        time.sleep(_LOOK_SECONDS)
    return answer


def _tail(output: Path) -> str:
    return output.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
