"""A broker that a benchmark has started, and how any server process is started and stopped."""

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
_STOP_SECONDS_MAX: Final = 30
_TAIL_BYTES: Final = 2_000

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker, ready for clients.

    Attributes:
        name: What it is called in the report.
        url: Where it is.
        pid: Its process; None when it is not on this machine.
    """

    name: str
    url: BrokerUrl
    pid: int | None


@contextmanager
def server_process(
    name: str, command: Sequence[str], environment: Mapping[str, str], output: Path, cwd: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, in a session of its own, and stop it by its own process id at the end.

    Args:
        name: What it is called in errors.
        command: Program and arguments.
        environment: All environment variables that it has.
        output: File for its standard output and error.
        cwd: Its current directory.

    Raises:
        BrokerStartError: There is no such program.
    """
    with output.open("wb") as sink:
        try:
            # A session of its own: Ctrl-C must reach the benchmark, which then stops its servers.
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
    """Ask a starting server again and again until it answers.

    Args:
        name: What it is called in errors.
        process: Its process.
        output: Where it writes; the end of it goes into the error.
        try_ask: Gives the answer, or None when there is none yet.
        seconds_max: How long to ask.

    Raises:
        BrokerStartError: It ended, or was not ready in time.
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
