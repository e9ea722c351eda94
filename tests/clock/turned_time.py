"""Lets tests that wait in real time wait by turning a clock instead."""

from types import ModuleType

import pytest

from amqp_server.testing.clock import TurnedClock


class TurnedTime:
    """The functions of `time` that waiting tests use.

    Args:
        clock: What they turn and read.
    """

    def __init__(self, clock: TurnedClock) -> None:
        self._clock = clock
        self.monotonic = clock.monotonic

    def sleep(self, seconds: float) -> None:
        """Turn the clock."""
        self._clock.advance(seconds=seconds)


def wait_in_turned_time(
    monkeypatch: pytest.MonkeyPatch, clock: TurnedClock, *modules: ModuleType
) -> None:
    """Replace `time` in these modules until the end of the test."""
    for module in modules:
        monkeypatch.setattr(module, "time", TurnedTime(clock))
