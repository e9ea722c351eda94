"""A forked server is the process that a fresh start of Python makes."""

import os
import signal
import subprocess
import sys
from multiprocessing.connection import wait as wait_for
from pathlib import Path

from tests.embedded.waiting import until
from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY, RunningServer


def about(server: RunningServer) -> dict[str, object]:
    """Return what the system says of a server's process, and what would show a difference."""
    process = Path("/proc") / str(server.pid)
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    signals = {name: status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt")}
    opened = sorted(
        str(path.readlink()).split(":")[0].replace(str(server.storage_path), "")
        for path in (process / "fd").iterdir()
    )
    limits = (process / "limits").read_text()
    return signals | {"opened": opened, "cwd": (process / "cwd").readlink(), "limits": limits}


def test_a_fork_has_what_a_fresh_process_has(tmp_path: Path) -> None:
    fresh, fork = (RunningServer(tmp_path / f"{each}", is_fork=each) for each in (False, True))
    with fresh.start(), fork.start():
        # Files that a start writes are open for a moment still.
        until(lambda: about(fresh) == about(fork))


def test_exit_codes_of_forks_are_their_own(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data").start() as server:
        assert server.terminate() == 0
        assert not server.start().faults
        server.signal(signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL
    with RunningServer(tmp_path / "data", "--ring-size", "7") as refused:
        refused.begin()
        assert refused.wait() == 2
        assert "ring-size" in "".join(refused.messages)


def test_forks_end_with_the_tests_that_started_them(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.servers import RunningServer;"
        "print(RunningServer(Path(sys.argv[1])).start().pid, flush=True); sys.stdin.read()"
    )
    tests = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with tests:
        assert tests.stdout is not None
        server = os.pidfd_open(int(tests.stdout.readline()))
        tests.kill()
    ended = wait_for([server], HANG_SECONDS)
    os.close(server)
    assert ended
