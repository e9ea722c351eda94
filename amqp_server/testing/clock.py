"""A clock that tests turn: what takes the broker an hour happens at once, in order.

    clock = TurnedClock()
    running = await start(config, clock=clock)
    ...
    clock.advance(minutes=30)

By itself the clock goes on at real speed, so short waits work as with any broker. `advance` adds a
span of time in which everything happens that would have happened: messages and queues expire,
delayed messages and retries arrive, consumers run out of time, retention removes what is too old.
The timers in that span run in the order of their times, those that they start as well. Between two
of them the broker comes to rest: its turns are done, and the disk has answered.

What waits for a peer goes by real time: a client gets no chance to answer within a span that takes
no time. So its heartbeats are not missed, unless the test asks for it (`heartbeats=True`).
"""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import CancelledError
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from amqp_server.testing.rest import ClockError, NotAtRestError, Rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.clock import ClockedServer

__all__ = ["ClockError", "TurnedClock"]

SECONDS_MAX: Final = 30.0
"""Real seconds that one `advance` may take unless the caller allows more."""
ROUNDS_KEPT: Final = 3
"""Rounds of repeated work that happen in a time in which nothing else does: its last ones.

One may seal a segment, the next remove it, and the third has nothing left to do.
"""
CANCELLED_MAX: Final = 100
"""Cancelled timers that are kept, or as many as there are others."""
SLACK_NS: Final = 999_999
"""Timers that are due so soon after a span belong to it: a broker counts whole milliseconds."""
TICK_NS: Final = 500_000_000
"""Time between two ticks of heartbeats."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TurnedTimer:
    """One call that a `TurnedClock` makes later.

    Args:
        due_ns: When, by the clock.
        call: What to call.
        forget: Called when the timer is cancelled before its call.
    """

    __slots__ = ("_forget", "call", "due_ns")

    def __init__(self, due_ns: int, call: Callable[[], None], forget: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.call: Callable[[], None] | None = call
        self._forget = forget

    def cancel(self) -> None:
        """Cancel the call; has no effect after it was made."""
        if self.call is not None:
            self.call = None
            self._forget()


class _Round:
    """A wait for the next round of repeated work."""

    def __init__(self, due_ns: int, interval_ns: int, came: asyncio.Future[None]) -> None:
        self.due_ns = due_ns
        self.interval_ns = interval_ns
        self.came = came


class TurnedClock:
    """A clock for one broker at a time; pass it to `start`, and keep it to turn it.

    A broker that is started again with the same clock goes on at its time. While no broker runs,
    `advance` lets the time pass.

    Args:
        stands_still: Whether time passes only by `advance` while a broker runs. Then nothing
            expires because a machine is slow, and a test controls each millisecond. Otherwise the
            clock also goes on at real speed.
    """

    def __init__(self, *, stands_still: bool = False) -> None:
        self._stands_still = stands_still
        now_ns = time.monotonic_ns()
        self._day_ns = time.time_ns() - now_ns
        # Where the clock stands, or None; how far it is ahead of the machine's. One value, because
        # other threads read it.
        self._state: tuple[int | None, int] = (None, 0)
        self._numbers = count()
        self._timers: list[tuple[int, int, TurnedTimer]] = []
        self._cancelled = 0
        self._rounds: list[_Round] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._handle: asyncio.TimerHandle | None = None
        self._handle_due_ns = 0
        self._server: ClockedServer | None = None
        self._was_used = False
        self._turning = asyncio.Lock()

    # For tests, from any thread

    @property
    def now(self) -> datetime:
        """The time of day of the broker, in UTC."""
        return _EPOCH + timedelta(microseconds=self.time_ns() // 1_000)

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
        heartbeats: bool = False,
        answer_seconds: float = 0.0,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        """Let a span of time pass; return when all that belongs to it has happened.

        What clients have sent before the call is handled first. Without a span, only wait until
        the broker is at rest.

        Args:
            days: Length of the span, to which all others are added; the sum is at least 0.
            hours: Part of the span.
            minutes: Part of the span.
            seconds: Part of the span.
            milliseconds: Part of the span.
            heartbeats: Whether heartbeats pass too: a client that has agreed on heartbeats, and
                sends nothing during the call, is dropped as if it were dead. Three of its intervals
                are enough.
            answer_seconds: Real time for which the broker waits at each time for consumers in other
                threads, as long as one of their deliveries is not acknowledged. So their retries
                belong to the span.
            seconds_max: Real time after which the call fails.

        Raises:
            ClockError: The broker does not come to rest, or it stopped, or none has ever had this
                clock, or the caller is on the broker's own event loop. The clock stays where it is.
            ValueError: The span is negative.
        """
        span = timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        span_ns = _span_ns(span)
        loop = self._begin()
        if loop is None:
            self._shift(span_ns)
            return
        if _running_loop() is loop:
            raise ClockError(
                "advance() would block the broker's own event loop: use `await advance_async(...)`"
            )
        turning = self._turn(span_ns, heartbeats, answer_seconds, seconds_max)
        try:
            asyncio.run_coroutine_threadsafe(turning, loop).result()
        except CancelledError:
            raise ClockError("the broker stopped while its clock was turned") from None

    async def advance_async(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
        heartbeats: bool = False,
        answer_seconds: float = 0.0,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        """Do what `advance` does, on any event loop, even that of the broker."""
        span = timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        span_ns = _span_ns(span)
        loop = self._begin()
        if loop is None:
            self._shift(span_ns)
            return
        turning = self._turn(span_ns, heartbeats, answer_seconds, seconds_max)
        if _running_loop() is loop:
            await turning
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(turning, loop))

    # amqp_server.base.clock.Clock

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        return self._now_ns() / 1e9

    def monotonic_ms(self) -> int:
        """Return milliseconds that never decrease."""
        return self._now_ns() // 1_000_000

    def time_ns(self) -> int:
        """Return the time of day, in nanoseconds since 1970 UTC."""
        return self._now_ns() + self._day_ns

    def call_later(self, seconds: float, call: Callable[[], None], /) -> TurnedTimer:
        """Make a call on the event loop of the server after `seconds` of this clock."""
        # A time that is not 0 must not become it: who asks again would never see time pass.
        wait_ns = max(round(seconds * 1e9), 1) if seconds > 0 else 0
        timer = TurnedTimer(self._now_ns() + wait_ns, call, self._forget)
        heappush(self._timers, (timer.due_ns, next(self._numbers), timer))
        self._wait()
        return timer

    async def until_round(self, due_seconds: float, interval_seconds: float) -> float:
        """Return when a round is due, and which one it is."""
        came = asyncio.get_running_loop().create_future()
        waiting = _Round(round(due_seconds * 1e9), round(interval_seconds * 1e9), came)
        self._rounds.append(waiting)
        self._wait()
        try:
            await came
        finally:
            if waiting in self._rounds:
                self._rounds.remove(waiting)
        return waiting.due_ns / 1e9

    def use(self) -> ExitStack:
        """Belong to the server that starts on the running event loop, until it has stopped."""
        if self._loop is not None:
            raise ClockError("the clock belongs to a broker that runs: each needs one of its own")
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        # A generator would also end when the process does, in the middle of a server's work.
        using = ExitStack()
        using.callback(self._release)
        return using

    def serve(self, server: ClockedServer) -> ExitStack:
        """Let `advance` wait for a server, from the end of its start to the beginning of its stop.

        Before and after that the clock goes on at real speed.
        """
        self._server = server
        self._was_used = True
        self._turning = asyncio.Lock()
        if self._stands_still:
            self._stand_at(self._now_ns())
        serving = ExitStack()
        serving.callback(self._leave)
        return serving

    def _leave(self) -> None:
        self._server = None
        self._go_on()

    def _release(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        # They would keep the server in memory, and its event loop may go on.
        self._timers.clear()
        self._rounds.clear()
        self._cancelled = 0
        self._loop = None

    # Time

    def _now_ns(self) -> int:
        stands_ns, ahead_ns = self._state
        return time.monotonic_ns() + ahead_ns if stands_ns is None else stands_ns

    def _stand_at(self, now_ns: int) -> None:
        self._state = (now_ns, 0)

    def _go_on(self) -> None:
        self._state = (None, self._now_ns() - time.monotonic_ns())
        self._wait()

    def _shift(self, span_ns: int) -> None:
        """Let time pass while no broker runs."""
        self._state = (None, self._state[1] + span_ns)

    # Timers

    def _forget(self) -> None:
        self._cancelled += 1
        if self._cancelled > max(CANCELLED_MAX, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if entry[2].call is not None]
            heapify(self._timers)
            self._cancelled = 0

    def _first_timer_ns(self) -> int | None:
        while self._timers and self._timers[0][2].call is None:
            heappop(self._timers)
            self._cancelled = max(self._cancelled - 1, 0)
        return self._timers[0][0] if self._timers else None

    def _first_ns(self) -> int | None:
        """Return when the next timer or round is due."""
        dues = [each.due_ns for each in self._rounds]
        first_ns = self._first_timer_ns()
        if first_ns is not None:
            dues.append(first_ns)
        return min(dues, default=None)

    def _run_due(self) -> None:
        """Make the calls that are due, in the order of their times, in this turn of the loop."""
        assert self._loop is not None, "only a server that uses the clock has timers"
        now_ns = self._now_ns()
        while (due_ns := self._first_timer_ns()) is not None and due_ns <= now_ns:
            timer = heappop(self._timers)[2]
            call, timer.call = timer.call, None
            assert call is not None, "cancelled timers are dropped before"
            self._loop.call_soon(call)
        for each in [each for each in self._rounds if each.due_ns <= now_ns]:
            self._rounds.remove(each)
            if not each.came.done():
                each.came.set_result(None)

    def _wait(self) -> None:
        """Let the event loop wait for the next timer, if time passes by itself."""
        assert self._loop is not None, "only a server that uses the clock has timers"
        due_ns = None if self._state[0] is not None else self._first_ns()
        if self._handle is not None:
            if due_ns is not None and self._handle_due_ns <= due_ns:
                return
            self._handle.cancel()
            self._handle = None
        if due_ns is not None:
            wait_ns = max(due_ns - self._now_ns(), 0)
            self._handle_due_ns = due_ns
            # The loop counts milliseconds: a part of one is no time to it.
            self._handle = self._loop.call_later(wait_ns / 1e9 + 0.0005, self._come_due)

    def _come_due(self) -> None:
        self._handle = None
        if self._state[0] is None:
            self._run_due()
        self._wait()

    # Turning

    def _begin(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop of the running broker; None if its broker has stopped."""
        if self._loop is not None and self._pid != os.getpid():
            raise ClockError("the broker runs in the parent of this process: turn its clock there")
        if self._server is not None:
            return self._loop
        if self._loop is not None:
            raise ClockError("the broker is starting or stopping: wait until it runs, or has ended")
        if not self._was_used:
            raise ClockError(
                "no broker goes by this clock: start the broker first, with Broker(clock=clock)"
            )
        return None

    async def _turn(
        self, span_ns: int, heartbeats: bool, answer_seconds: float, seconds_max: float
    ) -> None:
        async with self._turning:
            server = self._server
            if server is None:
                raise ClockError("the broker stopped while its clock was turned")
            self._stand_at(self._now_ns())
            end_ns = self._now_ns() + span_ns
            rest = Rest(server, lambda: self._server is server, answer_seconds, seconds_max)
            try:
                await self._pass_until(end_ns, rest, server, heartbeats)
            except NotAtRestError as error:
                left = timedelta(microseconds=(end_ns - self._now_ns()) // 1_000)
                raise ClockError(
                    f"the broker did not come to rest within {seconds_max:g} s of real time, "
                    f"{left} before the end of the span, after {rest.count} rests: it is busy with "
                    f"{error}. Does a consumer requeue all that it gets, or a client publish "
                    "without a pause? If there is only much to do, pass a larger seconds_max, or "
                    "turn the clock in smaller steps"
                ) from None
            finally:
                if not self._stands_still or self._server is None:
                    self._go_on()

    async def _pass_until(
        self, end_ns: int, rest: Rest, server: ClockedServer, heartbeats: bool
    ) -> None:
        """Run everything that is due until `end_ns`, in its order, with a rest before each time."""
        tick_ns = self._now_ns() + TICK_NS
        while True:
            await rest.come()
            due_ns = self._next_due_ns(end_ns + SLACK_NS)
            before_ns = end_ns if due_ns is None else due_ns
            if heartbeats and tick_ns <= before_ns and server.has_heartbeats:
                self._stand_at(max(tick_ns, self._now_ns()))
                tick_ns += TICK_NS
                server.tick_heartbeats()
            elif due_ns is not None:
                self._stand_at(max(due_ns, self._now_ns()))
                self._run_due()
            else:
                break
        self._stand_at(max(end_ns, self._now_ns()))

    def _next_due_ns(self, end_ns: int) -> int | None:
        """Return when something is due next, if that is until `end_ns`; leave rounds out."""
        timer_ns = self._first_timer_ns()
        until_ns = end_ns if timer_ns is None else min(timer_ns, end_ns)
        for each in self._rounds:
            left = (until_ns - each.due_ns) // each.interval_ns
            if left >= ROUNDS_KEPT:
                each.due_ns += (left - ROUNDS_KEPT + 1) * each.interval_ns
        due_ns = self._first_ns()
        return due_ns if due_ns is not None and due_ns <= end_ns else None


def _span_ns(span: timedelta) -> int:
    if span < timedelta():
        raise ValueError(f"a clock goes on only: the span is {span.total_seconds():g} s")
    return (span // timedelta(microseconds=1)) * 1_000


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
