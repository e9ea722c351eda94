"""Work that is done in turns, for a caller that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from amqp_server.base.clock import Timer
from amqp_server.base.time_slice import SLICE_SECONDS
from amqp_server.broker.job import Job, done_in_turns
from amqp_server.broker.turn import Turn
from tests.stopwatch import Stopwatch


def never_called(seconds: float, _: Callable[[], None]) -> Timer:
    raise AssertionError(f"a timer of {seconds} s")


def a_turn() -> Turn:
    loop = asyncio.get_running_loop()
    return Turn(loop.call_soon, loop.call_later)


async def test_the_caller_gets_the_error() -> None:
    def steps() -> Iterator[None]:
        yield
        raise KeyError("why")

    turn = a_turn()
    with pytest.raises(KeyError):
        await done_in_turns(turn, turn.upkeep, steps(), "test")


async def test_the_steps_outlive_a_caller_that_is_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn = a_turn()
    ended = asyncio.Event()
    is_cancelled = False

    def steps() -> Iterator[None]:
        while not is_cancelled:
            yield
        ended.set()

    steps_in_turns = done_in_turns(turn, turn.upkeep, steps(), "test", slice_seconds=0.0)
    caller = asyncio.create_task(steps_in_turns)
    asyncio.get_running_loop().call_later(0.01, caller.cancel)
    with pytest.raises(asyncio.CancelledError):
        await caller
    is_cancelled = True
    await ended.wait()
    await asyncio.sleep(0)
    assert turn.is_idle
    assert not caplog.records


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
@pytest.mark.parametrize("steps_before", [0, 1, 2])
def test_a_job_that_fails_leaves_the_turn_idle(
    error: type[BaseException], steps_before: int
) -> None:
    """A job that stays among the turn's jobs would keep the server from stopping."""

    def steps() -> Iterator[None]:
        for _ in range(steps_before):
            yield
        raise error

    called: list[Callable[[], None]] = []
    turn = Turn(called.append, never_called)
    job = Job(turn, turn.new_task_queue(), steps(), "test", slice_seconds=0.0)
    with suppress(error):
        job.start()
    while called:
        with suppress(error):
            called.pop()()

    assert not turn.jobs


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_a_job_that_fails_while_the_server_stops_is_no_job_any_more(
    error: type[BaseException],
) -> None:
    def steps() -> Iterator[None]:
        yield
        raise error

    turn = Turn(list[Callable[[], None]]().append, never_called)
    job = Job(turn, turn.new_task_queue(), steps(), "test", slice_seconds=0.0)
    job.start()
    with pytest.raises(error):
        job.finish()

    assert not turn.jobs


def test_the_line_of_a_job_pays_for_all_of_its_slices() -> None:
    """Whatever starts it: a result of the disk, a timer, or a turn of another client."""
    stopwatch = Stopwatch()

    def steps() -> Iterator[None]:
        for _ in range(10):
            stopwatch.seconds += SLICE_SECONDS
            yield

    called: list[Callable[[], None]] = []
    turn = Turn(
        called.append, never_called, stopwatch=stopwatch, processor_time=stopwatch.processor_time
    )
    client = turn.new_task_queue()
    began_seconds = client.clock_seconds
    # No task runs: the current task queue is that of upkeep.
    Job(turn, client, steps(), "test").start()
    while called:
        called.pop(0)()

    assert not turn.jobs
    assert client.clock_seconds - began_seconds == pytest.approx(9 * SLICE_SECONDS)
    assert turn.upkeep.clock_seconds == 0.0
