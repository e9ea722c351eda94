"""What all windows of a server hold: the bound, and what nobody has used for long."""

import time
from collections.abc import Callable

from amqp_server.broker.storing.log_window import WINDOW_SECONDS
from amqp_server.broker.storing.window_budget import WindowBudget
from amqp_server.broker.turn import Turn


class Holder:
    """Something that holds as much as it is told to."""

    def __init__(self, held: WindowBudget, held_bytes: int) -> None:
        self.held = held
        self.read_at_seconds = time.monotonic()
        held.record(self, held_bytes)

    def clear(self) -> None:
        self.held.record(self, 0)


class Clock:
    """A turn whose timers a test fires."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.turn = Turn(lambda run: run(), self._call_later)

    def _call_later(self, seconds: float, run: Callable[[], None]) -> "Clock":
        assert seconds > 0
        self.timers.append(run)
        return self

    def cancel(self) -> None:
        """Stand in for a timer."""


def test_above_the_bound_what_was_used_last_stays() -> None:
    held = WindowBudget(bytes_max=100)
    first, second, third = (Holder(held, 40) for _ in range(3))
    assert held.held_bytes == 80
    held.use(second)
    fourth = Holder(held, 50)
    assert held.held_bytes == 90
    for gone in (first, third):
        assert gone not in held._holders
    for here in (second, fourth):
        assert here in held._holders


def test_one_is_held_however_large_it_is() -> None:
    held = WindowBudget(bytes_max=100)
    Holder(held, 40)
    Holder(held, 1_000)
    assert (len(held), held.held_bytes) == (1, 1_000)


def test_there_is_room_for_what_nobody_waits_for_in_one_half() -> None:
    held = WindowBudget(bytes_max=100)
    Holder(held, 49)
    assert held.has_room_ahead
    Holder(held, 1)
    assert not held.has_room_ahead


def test_what_is_too_old_is_let_go_of_though_nobody_asks() -> None:
    clock = Clock()
    held = WindowBudget(turn=clock.turn)
    old, new = Holder(held, 10), Holder(held, 20)
    assert len(clock.timers) == 1, "one timer for all of them"
    old.read_at_seconds -= 2 * WINDOW_SECONDS

    clock.timers.pop()()

    assert held.held_bytes == 20
    assert len(clock.timers) == 1, "the other one will be too old too"
    new.clear()
    clock.timers.pop()()
    assert clock.timers == [], "without windows there is nothing to wait for"
    Holder(held, 5)
    assert len(clock.timers) == 1
