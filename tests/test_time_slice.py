"""A slice lasts as long as its stopwatch says, on every machine."""

import asyncio

import pytest

from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.turn import Turn
from tests.stopwatch import Stopwatch


@pytest.fixture
def slice_seconds(pytestconfig: pytest.Config) -> float:
    """What this run was asked for, or what servers have."""
    asked: float | None = pytestconfig.option.slice_seconds
    return 0.001 if asked is None else asked


def turn_of(stopwatch: Stopwatch) -> Turn:
    return Turn(
        lambda _call: None, lambda _seconds, _call: pytest.fail("a timer"), stopwatch=stopwatch
    )


def test_the_slices_of_this_run_are_as_long_as_it_was_asked_for(slice_seconds: float) -> None:
    stopwatch = Stopwatch(100.0)
    slices = [TimeSlice(stopwatch=stopwatch), turn_of(stopwatch).new_slice()]
    stopwatch.seconds = 100.0 + slice_seconds * 0.99
    assert [each.is_over for each in slices] == [slice_seconds == 0] * 2
    stopwatch.seconds = 100.0 + slice_seconds
    assert all(each.is_over for each in slices)


def test_a_slice_of_another_length_is_that_long() -> None:
    stopwatch = Stopwatch()
    for each in (TimeSlice(0.5, stopwatch), turn_of(stopwatch).new_slice(0.5)):
        stopwatch.seconds = 0.49
        assert not each.is_over
        stopwatch.seconds = 0.5
        assert each.is_over
        stopwatch.seconds = 0.0


async def test_others_run_when_a_slice_is_over_and_then_a_new_one_begins() -> None:
    stopwatch, others = Stopwatch(), list[str]()
    time_slice = TimeSlice(0.5, stopwatch)
    asyncio.get_running_loop().call_soon(others.append, "ran")
    await time_slice.yield_if_due()
    assert others == []
    stopwatch.seconds = 0.5
    await time_slice.yield_if_due()
    assert others == ["ran"]
    assert not time_slice.is_over
