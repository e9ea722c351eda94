"""An event loop on which everything happens in one thread and always in the same order.

What the server gives to worker threads is done at once, and answered after some turns of the
loop; how many is decided by a seed. So the operations on the disk have numbers that mean the same
in every run, and another seed gives another interleaving.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any
from unittest import mock

from appendlog.files.operation import Operation
from appendlog.flushing.execution import carry_out, complete, prepare, write_prepared
from appendlog.flushing.flusher import PARALLEL_MAX
from appendlog.flushing.requests import FlushRequest, FlushResult, Request
from appendlog.flushing.write_order import WriteOrder

TURNS_MAX = 3
"""Most turns of the loop that an answer takes."""
BEGIN_NS = 1_790_000_000 * 10**9
"""The clocks at first. They stand still: nothing expires because the machine is slow."""


STEP_SECONDS = 1e-5
"""What the stopwatch goes on each time it is read: work takes the same time on every machine,
however busy it is."""


class InlineLoop(asyncio.SelectorEventLoop):
    """See the module.

    Its time stands still while something is left to do. When only timers are left, it goes on to
    the next of them at once.

    Args:
        seed: Decides when answers come.

    Attributes:
        log_turns: How many turns writes and syncs of logs come later than anything else.
    """

    def __init__(self, seed: int = 0) -> None:
        self.log_turns = 0
        self._waited_seconds = 0.0
        self._steps = count()
        self._stops_when_quiet = False
        super().__init__(_TimelessSelector(self._on_quiet))
        self.chance = random.Random(seed)
        self.passed_seconds = 0.0

    def time(self) -> float:
        """Return the time: what timers have waited, and what `pass_time` added."""
        return self._waited_seconds + self.passed_seconds

    def pass_time(self, seconds: float) -> None:
        """Let all clocks that the server looks at go on."""
        self.passed_seconds += seconds

    def stopwatch(self) -> float:
        """Return how long everything has taken until now, for a server that shares out the loop."""
        return next(self._steps) * STEP_SECONDS

    def clocks(self) -> AbstractContextManager[object]:
        """Return a context in which the clocks follow this loop, and not the machine.

        The time of day follows `pass_time`, and nothing else.
        """
        day = self._clock_ns
        patched: AbstractContextManager[object] = mock.patch.multiple(
            "time", time_ns=day, monotonic_ns=day
        )
        return patched

    def run_in_executor(
        self, executor: object, func: Callable[..., Any], *args: object
    ) -> asyncio.Future[Any]:
        """Call the function now; the future is done some turns later."""
        future = self.create_future()
        try:
            result = func(*args)
        except BaseException as error:  # noqa: BLE001 - its awaiter gets it
            self.after_turns(_settle, future, None, error)
        else:
            self.after_turns(_settle, future, result, None)
        return future

    def after_turns(self, function: Callable[..., object], *args: object) -> None:
        """Call a function after a number of turns."""
        self._wait_turns(self.chance.randrange(TURNS_MAX), function, args)

    def after_log_turns(self, function: Callable[..., object]) -> None:
        """Call a function after a number of turns, as many more as logs are slow."""
        self._wait_turns(self.chance.randrange(TURNS_MAX) + self.log_turns, function, ())

    def run_some_turns(self) -> None:
        """Run for a few turns, or none: so what is sent next comes while something goes on."""
        for _ in range(self.chance.randrange(2 * TURNS_MAX)):
            self.run_until_complete(asyncio.sleep(0))

    def settle(self) -> None:
        """Run until nothing is left to do but to wait for a timer or a peer."""
        self._stops_when_quiet = True
        try:
            self.run_forever()
        finally:
            self._stops_when_quiet = False

    def _on_quiet(self, seconds: float | None) -> bool:
        """Stop, or pass the seconds until the next timer; return whether there is more to do."""
        if self._stops_when_quiet:
            self.stop()
            return True
        if seconds is None:
            return False
        self._waited_seconds += seconds
        return True

    def _clock_ns(self) -> int:
        return BEGIN_NS + int(self.passed_seconds * 1e9)

    def _wait_turns(
        self, turns: int, function: Callable[..., object], args: tuple[object, ...]
    ) -> None:
        if turns:
            self.call_soon(self._wait_turns, turns - 1, function, args)
        else:
            self.call_soon(function, *args)


class _TimelessSelector(selectors.DefaultSelector):
    """Does not wait for a timer: the time of the loop passes instead.

    Args:
        on_quiet: Is called when no callback is ready and no file is, with the seconds until the
            next timer (None without one). It returns False to wait for a file.
    """

    def __init__(self, on_quiet: Callable[[float | None], bool]) -> None:
        super().__init__()
        self._on_quiet = on_quiet

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the files that are ready; they are not looked at while callbacks are ready."""
        if timeout == 0:
            return []
        ready = super().select(0)
        if ready or self._on_quiet(timeout):
            return ready
        return super().select(None)


class InlineFlusher:
    """Carries out requests on the loop, some turns after the first of them.

    Args:
        on_results: As that of `Flusher`.
    """

    def __init__(self, on_results: Callable[[list[FlushResult]], None]) -> None:
        self._on_results = on_results
        self._waiting: list[tuple[Request, Hashable]] = []
        self._maintenance: list[Request] = []
        self._order = WriteOrder(self._maintenance.append, PARALLEL_MAX)
        self._is_started = False
        self._is_closed = False
        self.fileno = -1

    def start(self, _: object) -> None:
        """Begin to work."""
        self._is_started = True
        self._plan()

    def under_way(self) -> list[Operation]:
        """Return nothing: each write is done when it is submitted."""
        return []

    def submit(self, request: Request, charged_client: Hashable = None) -> None:
        """Take a request."""
        if self._is_closed:
            raise RuntimeError("flusher is closed")
        self._waiting.append((request, charged_client))
        if len(self._waiting) == 1:
            self._plan()

    def close(self, on_closed: Callable[[], None]) -> None:
        """Do what was submitted."""
        self._is_closed = True
        self._run()
        on_closed()

    def _plan(self) -> None:
        if self._is_started and self._waiting:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, InlineLoop), "another loop"
            loop.after_log_turns(self._run)

    def _run(self) -> None:
        requests, self._waiting = self._waiting, []
        for request, charged_client in requests:
            self._order.add(request, charged_client)
        while batch := self._order.take():
            self._on_results(_append_results(batch.requests))
            self._order.written(batch)
            self._order.done(batch)
        for other in self._maintenance:
            error, freed_bytes = carry_out([other])
            self._on_results([FlushResult(other, error, freed_bytes)])
        self._maintenance.clear()


def _append_results(group: Sequence[FlushRequest]) -> list[FlushResult]:
    log = group[0].log
    write = prepare(group)
    if write is not None:
        write_prepared(write)
        if write.is_refused:
            log.abandon(write)
            write = None
    error = carry_out(group)[0] if write is None else complete(log, write)
    return [FlushResult(request, error) for request in group]


def _settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
