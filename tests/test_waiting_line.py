"""Places that are given out in turn for each address."""

from __future__ import annotations

import asyncio

import pytest

from amqp_server.base import waiting_line
from amqp_server.base.waiting_line import WAITING_PER_ADDRESS_MAX, CrowdedError, WaitingLine


async def test_places_are_given_in_turn_for_each_address() -> None:
    line = WaitingLine(1, 1)
    order: list[str] = []

    async def take(address: str) -> None:
        async with line.place(address):
            order.append(address)
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(take(each)) for each in "aaaabcbc"]
    await asyncio.gather(*tasks)
    assert order == ["a", "a", "b", "c", "a", "b", "c", "a"]


async def test_a_line_is_bounded_for_each_address_and_cancelled_ones_leave_it() -> None:
    line = WaitingLine(1, 1)

    async def take(address: str) -> None:
        async with line.place(address):
            pass

    async with line.place("x"):
        tasks = [asyncio.ensure_future(take("a")) for _ in range(WAITING_PER_ADDRESS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(CrowdedError) as crowded:
            await take("a")
        assert crowded.value.is_of_address
        other = asyncio.ensure_future(take("b"))
        for task in tasks:
            task.cancel()
    await other
    async with line.place("c"):
        assert len(line) == 0


async def test_an_address_cannot_hold_all_places() -> None:
    line = WaitingLine(3, 2)
    may_end = asyncio.Event()
    holding: list[str] = []

    async def hold(address: str) -> None:
        async with line.place(address):
            holding.append(address)
            await may_end.wait()

    tasks = [asyncio.ensure_future(hold("a")) for _ in range(5)]
    await asyncio.sleep(0)
    assert (holding, len(line)) == (["a", "a"], 3)
    # The place that is left is for another address; a place that it returns, too.
    async with line.place("b"):
        tasks.append(asyncio.ensure_future(hold("b")))
        await asyncio.sleep(0)
        assert holding == ["a", "a"]
    await asyncio.sleep(0)
    assert holding == ["a", "a", "b"]
    may_end.set()
    await asyncio.gather(*tasks)
    assert (sorted(holding), len(line)) == (["a"] * 5 + ["b"], 0)
    # All places are free again, and nothing is kept of those who had them.
    async with line.place("c"), line.place("c"), line.place("d"):
        assert len(line) == 0
    assert not line._taken
    assert not line._waiting


async def test_a_line_is_bounded_for_all_and_keeps_nothing_of_those_it_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_line, "WAITING_MAX", 2)
    line = WaitingLine(1, 1)

    async def take(address: str) -> None:
        async with line.place(address):
            pass

    async with line.place("x"):
        tasks = [asyncio.ensure_future(take(each)) for each in "ab"]
        await asyncio.sleep(0)
        for number in range(100):
            with pytest.raises(CrowdedError) as crowded:
                await take(f"c{number}")
            assert not crowded.value.is_of_address
        assert len(line._waiting) == 2
    await asyncio.gather(*tasks)


async def test_the_turn_of_one_who_goes_in_the_same_moment_is_given_on() -> None:
    line = WaitingLine(1, 1)

    async def take(address: str) -> str:
        async with line.place(address):
            return address

    async with line.place("x"):
        gone, other = (asyncio.ensure_future(take(each)) for each in "ab")
        await asyncio.sleep(0)
        gone.cancel()
    assert await other == "b"
    async with line.place("x"):
        given = asyncio.ensure_future(take("a"))
        await asyncio.sleep(0)
    # It has its place, and does not run yet.
    given.cancel()
    async with line.place("c"):
        assert len(line) == 0
