"""Places that are given out in turn for each address."""

from __future__ import annotations

import asyncio

import pytest

from amqp_server.base import waiting_list
from amqp_server.base.waiting_list import WAITING_PER_ADDRESS_MAX, CrowdedError, WaitingList


async def test_places_are_given_in_turn_for_each_address() -> None:
    waiting_places = WaitingList(1, 1)
    order: list[str] = []

    async def take(address: str) -> None:
        async with waiting_places.place(address):
            order.append(address)
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(take(each)) for each in "aaaabcbc"]
    await asyncio.gather(*tasks)
    assert order == ["a", "a", "b", "c", "a", "b", "c", "a"]


async def test_a_list_is_bounded_for_each_address_and_cancelled_ones_leave_it() -> None:
    waiting_places = WaitingList(1, 1)

    async def take(address: str) -> None:
        async with waiting_places.place(address):
            pass

    async with waiting_places.place("x"):
        tasks = [asyncio.ensure_future(take("a")) for _ in range(WAITING_PER_ADDRESS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(CrowdedError) as crowded:
            await take("a")
        assert crowded.value.is_of_address
        other = asyncio.ensure_future(take("b"))
        for task in tasks:
            task.cancel()
    await other
    async with waiting_places.place("c"):
        assert len(waiting_places) == 0


async def test_an_address_cannot_hold_all_places() -> None:
    waiting_places = WaitingList(3, 2)
    may_end = asyncio.Event()
    holding: list[str] = []

    async def hold(address: str) -> None:
        async with waiting_places.place(address):
            holding.append(address)
            await may_end.wait()

    tasks = [asyncio.ensure_future(hold("a")) for _ in range(5)]
    await asyncio.sleep(0)
    assert (holding, len(waiting_places)) == (["a", "a"], 3)
    # The place that is left is for another address; a place that it returns, too.
    async with waiting_places.place("b"):
        tasks.append(asyncio.ensure_future(hold("b")))
        await asyncio.sleep(0)
        assert holding == ["a", "a"]
    await asyncio.sleep(0)
    assert holding == ["a", "a", "b"]
    may_end.set()
    await asyncio.gather(*tasks)
    assert (sorted(holding), len(waiting_places)) == (["a"] * 5 + ["b"], 0)
    # All places are free again, and nothing is kept of those who had them.
    async with waiting_places.place("c"), waiting_places.place("c"), waiting_places.place("d"):
        assert len(waiting_places) == 0
    assert not waiting_places._taken
    assert not waiting_places._waiting


async def test_a_list_is_bounded_for_all_and_keeps_nothing_of_those_it_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_list, "WAITING_MAX", 2)
    waiting_places = WaitingList(1, 1)

    async def take(address: str) -> None:
        async with waiting_places.place(address):
            pass

    async with waiting_places.place("x"):
        tasks = [asyncio.ensure_future(take(each)) for each in "ab"]
        await asyncio.sleep(0)
        for number in range(100):
            with pytest.raises(CrowdedError) as crowded:
                await take(f"c{number}")
            assert not crowded.value.is_of_address
        assert len(waiting_places._waiting) == 2
    await asyncio.gather(*tasks)


async def test_the_turn_of_one_who_goes_in_the_same_moment_is_given_on() -> None:
    waiting_places = WaitingList(1, 1)

    async def take(address: str) -> str:
        async with waiting_places.place(address):
            return address

    async with waiting_places.place("x"):
        gone, other = (asyncio.ensure_future(take(each)) for each in "ab")
        await asyncio.sleep(0)
        gone.cancel()
    assert await other == "b"
    async with waiting_places.place("x"):
        given = asyncio.ensure_future(take("a"))
        await asyncio.sleep(0)
    # It has its place, and does not run yet.
    given.cancel()
    async with waiting_places.place("c"):
        assert len(waiting_places) == 0
