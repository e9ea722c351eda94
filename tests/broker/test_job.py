"""Work that is done in turns, for a caller that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from amqp_server.broker.job import done_in_turns
from amqp_server.broker.turn import Turn


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
            # A slice that is over: the rest waits for the next turn.
            turn.time_slice.begin(-1.0)
            yield
        ended.set()

    caller = asyncio.create_task(done_in_turns(turn, turn.upkeep, steps(), "test"))
    # The first slice begins when the caller does, and takes its whole time.
    asyncio.get_running_loop().call_later(0.01, caller.cancel)
    with pytest.raises(asyncio.CancelledError):
        await caller
    is_cancelled = True
    await ended.wait()
    await asyncio.sleep(0)
    assert turn.is_idle
    assert not caplog.records
