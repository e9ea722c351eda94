"""Threads of this process as the system lists them, also those that are not the interpreter's."""

import time
from contextlib import suppress
from pathlib import Path

from tests.limits import HANG_SECONDS


def thread_statuses() -> list[dict[str, str]]:
    """Return the status of each thread, by the names of /proc/PID/status."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        # One that was joined may be listed a moment longer, and gone when it is read.
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = (task / "status").read_text().splitlines()
            found.append(dict(line.split(":\t", 1) for line in lines if ":\t" in line))
    return found


def await_no_thread(name: str) -> None:
    """Return when the system lists no thread of this name any more."""
    give_up_seconds = time.monotonic() + HANG_SECONDS
    while any(status["Name"] == name for status in thread_statuses()):
        assert time.monotonic() < give_up_seconds, f"a thread {name} is left"
        time.sleep(0.001)
