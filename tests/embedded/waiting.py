"""Waiting for another thread or process."""

import time
from collections.abc import Callable


def until(is_so: Callable[[], bool]) -> None:
    """Wait for another thread or process; the test's own time limit ends it."""
    while not is_so():
        time.sleep(0.005)
