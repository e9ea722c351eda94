"""Processes that nobody waits for any more, because what started them has been killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def kill_left_over(variables: Mapping[str, str]) -> None:
    """Kill every process that was started with these variables, other than this one.

    A process gives its variables to those that it starts, and keeps those it was started with. So
    they are found also when their parent is gone.

    Args:
        variables: Names and values, at least one. A process needs all of them.
    """
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    assert wanted, "it would be every process of the machine"
    for directory in Path("/proc").glob("[0-9]*"):
        # It may end at any time, or belong to another user.
        with suppress(OSError):
            found = (directory / "environ").read_bytes().split(b"\0")
            if wanted.issubset(found) and int(directory.name) != os.getpid():
                os.kill(int(directory.name), signal.SIGKILL)
