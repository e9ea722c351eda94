"""SIGTERM for a command that works for long: what ends a job from outside is what Ctrl-C is."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt in the block, as SIGINT does.

    By default it ends the process at once: schedulers and `timeout` would leave leases, half a
    job's files and no word. In other threads than the main one nothing can be, and is, changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
