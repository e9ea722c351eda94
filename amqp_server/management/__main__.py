"""The process of the management server; only the broker starts it."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from typing import Final

from amqp_server.management.priority import lower_priority

_PR_SET_PDEATHSIG: Final = 1


def main() -> int:
    """Read the settings, then serve until the broker ends.

    Returns:
        Exit code: 0.
    """
    lower_priority()
    # A terminal or a script may send these to all processes of the group: they are for the broker,
    # which ends this process when it stops.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    # The kernel kills us when the broker dies, even while this process is too busy to see that
    # its standard input has ended.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    from amqp_server.management.settings import decode_settings

    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    settings = decode_settings(line)
    if os.getppid() != settings.broker_pid:
        return 0

    import uvloop

    from amqp_server.management.reports import ReportHandler
    from amqp_server.management.server import serve

    logging.basicConfig(level=logging.INFO, handlers=[ReportHandler()], force=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    uvloop.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
