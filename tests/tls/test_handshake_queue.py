"""Handshakes get a time slice of each turn of the loop, and a bounded number is under way."""

from __future__ import annotations

import asyncio
import time

import pytest

from amqp_server.connections.tls import handshake_queue
from amqp_server.connections.tls.handshake_queue import HandshakeQueue


class SlowHandshake:
    """A handshake whose steps take a moment of CPU.

    Args:
        queue: HandshakeQueue of the server.
        seconds: Time of one step.
        address: IP address of its client; None for one that no other has.
    """

    def __init__(
        self, queue: HandshakeQueue, seconds: float = 0.0, address: str | None = None
    ) -> None:
        self.address = f"client {id(self)}" if address is None else address
        self.is_started = False
        self.steps = 0
        self._queue = queue
        self._seconds = seconds

    def start(self) -> None:
        """Note that it has begun."""
        self.is_started = True

    def step(self) -> None:
        """Take the time of a step."""
        self.steps += 1
        end = time.perf_counter() + self._seconds
        while time.perf_counter() < end:
            pass


async def test_steps_are_shared_out_over_turns() -> None:
    queue = HandshakeQueue(100)
    shakes = [SlowHandshake(queue, handshake_queue.TURN_SECONDS) for _ in range(10)]
    for each in shakes:
        queue.add(each)
        queue.step_later(each)
    done = []
    for _ in range(20):
        # One turn of the loop.
        await asyncio.sleep(0)
        done.append(sum(each.steps for each in shakes))
    assert done[:10] == list(range(done[0], done[0] + 10))
    assert done[-1] == 10


async def test_short_steps_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_queue, "TURN_SECONDS", 60.0)
    queue = HandshakeQueue(100)
    shakes = [SlowHandshake(queue) for _ in range(10)]
    for each in shakes:
        queue.add(each)
        queue.step_later(each)
    await asyncio.sleep(0)
    assert [each.steps for each in shakes] == [1] * 10


async def test_handshakes_above_the_limit_start_in_their_order() -> None:
    queue = HandshakeQueue(2)
    shakes = [SlowHandshake(queue) for _ in range(5)]
    for each in shakes:
        queue.add(each)
    assert [each.is_started for each in shakes] == [True, True, False, False, False]
    queue.remove(shakes[2])
    queue.remove(shakes[0])
    queue.remove(shakes[0])
    assert [each.is_started for each in shakes] == [True, True, False, True, False]
    queue.remove(shakes[1])
    assert shakes[4].is_started
    assert len(queue) == 2


async def test_a_handshake_that_has_ended_takes_no_step() -> None:
    queue = HandshakeQueue(2)
    gone, stays = SlowHandshake(queue), SlowHandshake(queue)
    for each in (gone, stays):
        queue.add(each)
        queue.step_later(each)
    queue.remove(gone)
    await asyncio.sleep(0)
    assert (gone.steps, stays.steps) == (0, 1)


async def test_one_address_holds_a_part_of_the_places_and_addresses_take_turns() -> None:
    queue = HandshakeQueue(4)
    many = [SlowHandshake(queue, address="10.0.0.1") for _ in range(6)]
    others = [SlowHandshake(queue) for _ in range(4)]
    for each in [*many, *others]:
        queue.add(each)
    assert [each.is_started for each in many] == [True, *[False] * 5]
    assert [each.is_started for each in others] == [True, True, True, False]
    # Its next one waits longest, and has a place now.
    queue.remove(many[0])
    assert many[1].is_started
    assert not others[3].is_started
    queue.remove(others[0])
    assert others[3].is_started
    for each in [*many, *others]:
        queue.remove(each)
    assert len(queue) == 0
    assert [each.is_started for each in many].count(True) == 6


async def test_addresses_with_places_take_turns() -> None:
    queue = HandshakeQueue(8)
    first = [SlowHandshake(queue) for _ in range(8)]
    ones = [SlowHandshake(queue, address="10.0.0.1") for _ in range(2)]
    twos = [SlowHandshake(queue, address="10.0.0.2") for _ in range(2)]
    for each in [*first, *ones, *twos]:
        queue.add(each)
    for ended in first[:2]:
        queue.remove(ended)
    assert [each.is_started for each in [*ones, *twos]] == [True, False, True, False]
