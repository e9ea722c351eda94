"""The time that a broker goes by: what expires, when, and which time stamps messages get.

Everything that a client, a queue or an operator has asked for by its time goes by the clock:
lifetimes, delays, retries, timeouts of consumers, retention, rounds of checkpoints, append times.
So a test can pass a clock that it turns itself.

Three kinds of time are not the clock's, and stay those of the machine:

- measurement: how long a turn, a write or a collection takes (`time.perf_counter`);
- waiting for a peer: handshakes, closes, heartbeats. A peer lives in real time;
- waiting for the disk or for memory: pauses after a failed read, alarms, windows of logs.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Timer(Protocol):
    """A call that a clock makes later, unless it is cancelled."""

    def cancel(self) -> None:
        """Cancel the call; has no effect after it was made."""


class ClockedServer(Protocol):
    """A running server, as the clock that it goes by sees it."""

    @property
    def steps(self) -> int:
        """Number that grows with whatever the server does for its clients."""

    @property
    def work(self) -> str:
        """Work of the server at this moment; empty while it only waits for peers and timers."""

    @property
    def unanswered(self) -> int:
        """Number of deliveries that clients have not answered."""

    @property
    def has_heartbeats(self) -> bool:
        """Whether a client has asked for heartbeats."""

    def tick_heartbeats(self) -> None:
        """Let half a second pass for the heartbeats of all connections."""


class Clock(Protocol):
    """Source of the time, and of calls at a time. One event loop uses it at a time.

    `monotonic`, `monotonic_ms` and `time_ns` may be called from any thread.
    """

    def monotonic(self) -> float:
        """Return seconds that never decrease; their zero means nothing."""

    def monotonic_ms(self) -> int:
        """Return the milliseconds of `monotonic`, rounded down."""

    def time_ns(self) -> int:
        """Return the time of day, in nanoseconds since 1970 UTC; it may step back."""

    def call_later(self, seconds: float, call: Callable[[], None], /) -> Timer:
        """Make a call on the event loop after `seconds`: perhaps a moment early, or later."""

    async def until_round(self, due_seconds: float, interval_seconds: float) -> float:
        """Wait for the next round of work that repeats at an interval.

        Args:
            due_seconds: When the round is due, by `monotonic`.
            interval_seconds: Time between two rounds. A clock that is turned leaves out rounds in
                a time in which nothing else happens, but for the last few.

        Returns:
            When the round was due: `due_seconds`, or whole intervals after it.
        """

    def use(self) -> AbstractContextManager[object]:
        """Claim the clock for a server that starts on the running event loop.

        Returns:
            Context that ends when the server has stopped. Calls that were asked for before its end
            are not made after it.

        Raises:
            RuntimeError: The clock is of another server that runs.
        """

    def serve(self, server: ClockedServer) -> AbstractContextManager[object]:
        """Note that a server has started; return a context that ends when it begins to stop."""


class SystemClock:
    """The clock of the machine. Its methods are those of `time`: asking it costs nothing more.

    Args:
        call_later: Method of the event loop; takes the delay in seconds first.
    """

    monotonic = staticmethod(time.monotonic)

    def __init__(self, call_later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self.call_later = call_later
        self.time_ns = time.time_ns

    @staticmethod
    def monotonic_ms() -> int:
        """Return milliseconds that never decrease."""
        return time.monotonic_ns() // 1_000_000

    async def until_round(self, due_seconds: float, interval_seconds: float) -> float:
        """Return when the round is due."""
        del interval_seconds
        await asyncio.sleep(due_seconds - time.monotonic())
        return due_seconds

    def use(self) -> AbstractContextManager[object]:
        """Return an empty context: calls end with the event loop."""
        return nullcontext()

    def serve(self, server: ClockedServer) -> AbstractContextManager[object]:
        """Return an empty context: the time of the machine waits for no server."""
        del server
        return nullcontext()
