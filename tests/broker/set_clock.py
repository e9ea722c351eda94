"""A clock whose time passes when a test says so, and the timers that come due in it."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class SetTimer:
    """One timer of a `SetClock`.

    Attributes:
        at: When it comes due, in seconds.
        callback: Called then, unless the timer was cancelled.
    """

    at: float
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Never call the callback."""
        self.is_cancelled = True


@dataclass
class SetClock:
    """Stands for the broker's clock.

    Attributes:
        now: The time, in seconds.
        timers: Timers that were not due yet, cancelled ones too.
    """

    now: float = 0.0
    timers: list[SetTimer] = field(default_factory=list)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> SetTimer:
        """Start a timer, as a clock does."""
        self.timers.append(SetTimer(self.now + seconds, callback))
        return self.timers[-1]

    def monotonic(self) -> float:
        """Return the time, in seconds."""
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass; timers run in the order in which they come due."""
        self.pass_until(self.now + seconds)

    def pass_until(self, end: float) -> None:
        """Let time pass up to a moment, as `pass_seconds` does."""
        while due := [each for each in self.timers if each.at <= end and not each.is_cancelled]:
            timer = min(due, key=lambda each: each.at)
            self.timers.remove(timer)
            # A test may set the clock past a timer: the event loop was late.
            self.now = max(timer.at, self.now)
            timer.callback()
        self.now = end
