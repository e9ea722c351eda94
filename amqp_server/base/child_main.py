"""How a process that the broker starts begins; see `amqp_server.children.child_process`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_INPUT: Final = 0


def read_settings() -> bytes:
    """Bind this process to the life of the broker, and return the first line that it writes.

    Returns:
        The line; empty if the broker has gone.
    """
    # A terminal or a script may send these to all processes of the group: they are for the broker,
    # which ends this process when it stops.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    # The kernel kills us when the broker dies, even while this process is too busy to see that
    # its standard input has ended.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Unbuffered: the next lines are for whoever reads then.
    with open(_INPUT, "rb", buffering=0, closefd=False) as pipe:
        return pipe.readline()


def is_child_of(broker_pid: int) -> bool:
    """Return whether the broker still lives: it may have died before the kernel watched it."""
    return os.getppid() == broker_pid
