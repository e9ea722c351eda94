"""A time limit for a run, so that a run that hangs does not stop the whole table."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bench.errors import BenchError


class TookTooLongError(BenchError):
    """A run did not end within its time limit.

    Attributes:
        seconds_max: The time limit.
    """

    def __init__(self, seconds_max: float) -> None:
        super().__init__(f"not done after {seconds_max:.0f} s")
        self.seconds_max = seconds_max


@contextmanager
def time_limit(seconds_max: float) -> Iterator[None]:
    """Raise an error in the `with` after this time; for the main thread only.

    Raises:
        TookTooLongError: The time is over.
    """

    def raise_error(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLongError(seconds_max)

    before = signal.signal(signal.SIGALRM, raise_error)
    signal.setitimer(signal.ITIMER_REAL, seconds_max)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
