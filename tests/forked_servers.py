"""Processes of the server that start in a fifth of the time: forks of one that has its imports.

Most of what a start of `python -m amqp_server` costs are imports: 0.2 seconds of a core, hundreds
of times. One process a pytest worker imports the server, opens nothing and starts no thread; each
server is a fork of it that goes on at `cli.main.main`. It is a process like any other: with an id,
a standard error, signals and an exit code of its own.

As a module, `python -P -m tests.forked_servers DESCRIPTOR`, it is the process that is forked.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

from amqp_server.compiled_loop import loop
from tests.limits import HANG_SECONDS

_IMPORTED: Final = ("cli.main", "amqp_server.server_process")
"""What every server imports before it does anything; they import the rest."""

_REQUEST_BYTES_MAX: Final = 1 << 20
_PARTS_MAX: Final = 16


class ForkedProcess:
    """A server's process, with the methods of `subprocess.Popen` that its owner uses.

    Attributes:
        pid: Process id.
        stderr: What it writes to standard error; closed by the owner.
    """

    def __init__(self, pid: int, stderr: TextIO, status: int) -> None:
        self.pid = pid
        self.stderr = stderr
        self._status = status
        self._returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs or is waited for."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._take_status(0)
        finally:
            self._lock.release()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when it has ended.

        Raises:
            subprocess.TimeoutExpired: It did not end within `timeout` seconds.
        """
        with self._lock:
            code = self._take_status(timeout)
        if code is None:
            assert timeout is not None, "it was waited for without an end"
            raise subprocess.TimeoutExpired(f"server {self.pid}", timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it with SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _take_status(self, seconds_max: float | None) -> int | None:
        if self._returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(seconds_max):
                    return None
            text = os.read(self._status, 16)
            os.close(self._status)
            assert text, "the process that is forked has ended"
            self._returncode = int(text)
        return self._returncode


class _Forking:
    """The process that is forked, seen from the tests: started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._socket: socket.socket
        self._process: subprocess.Popen[bytes]

    def start_server(
        self, arguments: list[str], directory: Path, environment: Mapping[str, str]
    ) -> ForkedProcess:
        """Start one with these arguments of the command line, and nothing else of ours."""
        errors, errors_of_server = os.pipe()
        status, status_of_server = os.pipe()
        request = {
            "arguments": arguments,
            "directory": str(directory),
            "environment": dict(environment),
        }
        try:
            with self._lock:
                self._begin()
                socket.send_fds(
                    self._socket,
                    [json.dumps(request).encode()],
                    [errors_of_server, status_of_server],
                )
                pid = self._socket.recv(_PARTS_MAX)
        finally:
            os.close(errors_of_server)
            os.close(status_of_server)
        assert pid, "the process that is forked has ended"
        stderr = open(errors, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115, PTH123 - the owner closes it
        return ForkedProcess(int(pid), stderr, status)

    def _begin(self) -> None:
        if self._owner == os.getpid():
            return
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        home = Path(__file__).resolve().parent.parent
        kept = {name: text for name, text in os.environ.items() if not name.startswith("AMQP_")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.forked_servers", str(theirs.fileno())],
                cwd=home,
                env={**kept, "PYTHONPATH": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._owner = os.getpid()
        atexit.register(self._end)

    def _end(self) -> None:
        """End it and every server that still runs; not in a fork of the tests' process."""
        if self._owner == os.getpid():
            self._socket.close()
            self._process.wait(HANG_SECONDS)


start_forked_server: Final = _Forking().start_server


def _serve_forks(requests: socket.socket) -> list[str] | None:
    """Fork a server for each request until the tests end.

    Returns:
        In a fork: the arguments of its command line. In the process that is forked: None.
    """
    ended, wake = os.pipe()
    for end in (ended, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A Ctrl-C in a terminal reaches it too: the tests end first, and close the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    statuses: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if ended in ready:
                os.read(ended, 4096)
                _report_ends(statuses)
            if requests.fileno() not in ready:
                continue
            text, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES_MAX, 2)
            if not text:
                for pid in statuses:
                    os.kill(pid, signal.SIGKILL)
                return None
            errors, status = descriptors
            pid = os.fork()
            if pid == 0:
                break
            os.close(errors)
            statuses[pid] = status
            requests.send(str(pid).encode())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor in (ended, wake, status, *statuses.values()):
        os.close(descriptor)
    requests.close()
    return _become_server(json.loads(text), errors)


def _report_ends(statuses: dict[int, int]) -> None:
    """Write the exit code of each server that has ended, while its process id is still taken."""
    while statuses:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return
        code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        status = statuses.pop(found.si_pid)
        with suppress(BrokenPipeError):
            os.write(status, str(code).encode())
        os.close(status)
        os.waitpid(found.si_pid, 0)


def _become_server(request: dict[str, Any], errors: int) -> list[str]:
    """Take over what a new process would have got."""
    os.dup2(errors, 2)
    os.close(errors)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    arguments: list[str] = request["arguments"]
    return arguments


def main() -> int:
    """Import the server, as the command does, and become one in each fork."""
    loop.use()
    for name in _IMPORTED:
        importlib.import_module(name)
    arguments = _serve_forks(socket.socket(fileno=int(sys.argv[1])))
    if arguments is None:
        return 0
    sys.argv[1:] = arguments
    from cli.main import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
