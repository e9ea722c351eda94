"""SIGTERM for a long command, with the same effect as Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt in the block, as SIGINT does.

    By default SIGTERM ends the process at once: schedulers and `timeout` would leave leases and
    half-written files, without a message. In other threads than the main one this has no effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
