"""A limit of time for a run: one that hangs must not take the whole table with it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bench.errors import BenchError


class TookTooLongError(BenchError):
    """A run did not end in the time that it has.

    Attributes:
        seconds_max: That time.
    """

    def __init__(self, seconds_max: float) -> None:
        super().__init__(f"not done after {seconds_max:.0f} s")
        self.seconds_max = seconds_max


@contextmanager
def time_limit(seconds_max: float) -> Iterator[None]:
    """Raise in the `with` when it takes too long; in the main thread only.

    Raises:
        TookTooLongError: It did.
    """

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLongError(seconds_max)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds_max)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
