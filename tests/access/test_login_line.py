"""Slow checks: one at a time, in turn for each address, bounded."""

import asyncio
import threading
from functools import partial

import pytest

from amqp_server.access import login_line
from amqp_server.access.login_line import WAITING_PER_ADDRESS_MAX, FullLineError, LoginLine
from amqp_server.access.logins import REMEMBERED_SECONDS, Logins
from amqp_server.access.passwords import PasswordHash
from amqp_server.access.user import User
from tests.limits import HANG_SECONDS


class Gate:
    """A check that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.order: list[str] = []
        self.opened = threading.Event()

    def check(self, name: str) -> bool:
        self.running += 1
        self.most = max(self.most, self.running)
        self.opened.wait()
        self.order.append(name)
        self.running -= 1
        return True


async def test_addresses_take_turns_and_one_check_runs_at_a_time() -> None:
    line, gate = LoginLine(), Gate()
    waiting = [
        asyncio.ensure_future(line.run(partial(gate.check, f"many{n}"), "10.0.0.1"))
        for n in range(5)
    ]
    waiting.append(asyncio.ensure_future(line.run(lambda: gate.check("other"), "10.0.0.2")))
    await asyncio.sleep(0)
    gate.opened.set()

    assert all(await asyncio.gather(*waiting))
    assert gate.most == 1
    assert gate.order.index("other") <= 1
    assert [each for each in gate.order if each != "other"] == [f"many{n}" for n in range(5)]
    assert len(line) == 0
    line.close()


async def test_one_address_may_not_fill_the_line() -> None:
    line, gate = LoginLine(), Gate()
    waiting = [
        asyncio.ensure_future(line.run(lambda: gate.check("x"), "10.0.0.1"))
        for _ in range(WAITING_PER_ADDRESS_MAX + 1)
    ]
    await asyncio.sleep(0)
    # The first is being checked, and does not wait any more.
    await asyncio.sleep(0)
    waiting.append(asyncio.ensure_future(line.run(lambda: gate.check("x"), "10.0.0.1")))
    await asyncio.sleep(0)
    refused = [each for each in waiting if each.done()]
    assert refused
    for each in refused:
        with pytest.raises(FullLineError):
            each.result()
    other = asyncio.ensure_future(line.run(lambda: gate.check("other"), "10.0.0.2"))
    gate.opened.set()
    assert await other
    await asyncio.gather(*waiting, return_exceptions=True)
    line.close()


async def test_a_login_whose_client_has_gone_is_not_checked() -> None:
    line, gate = LoginLine(), Gate()
    first = asyncio.ensure_future(line.run(lambda: gate.check("first"), "10.0.0.1"))
    gone = asyncio.ensure_future(line.run(lambda: gate.check("gone"), "10.0.0.1"))
    last = asyncio.ensure_future(line.run(lambda: gate.check("last"), "10.0.0.1"))
    await asyncio.sleep(0)
    gone.cancel()
    gate.opened.set()
    await asyncio.gather(first, last)

    assert gate.order == ["first", "last"]
    line.close()


async def test_a_check_that_fails_ends_no_other_login() -> None:
    line, gate = LoginLine(), Gate()

    def fail() -> bool:
        gate.opened.wait()
        raise MemoryError

    failing = asyncio.ensure_future(line.run(fail, "10.0.0.1"))
    last = asyncio.ensure_future(line.run(lambda: gate.check("last"), "10.0.0.1"))
    await asyncio.sleep(0)
    gate.opened.set()

    async with asyncio.timeout(HANG_SECONDS):
        assert await last
        with pytest.raises(MemoryError):
            await failing
    line.close()


async def test_refused_addresses_leave_nothing_in_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(login_line, "WAITING_MAX", 1)
    line, gate = LoginLine(), Gate()
    first = asyncio.ensure_future(line.run(lambda: gate.check("x"), "10.0.0.1"))
    await asyncio.sleep(0)
    for number in range(100):
        with pytest.raises(FullLineError):
            await line.run(lambda: True, f"10.1.0.{number}")

    assert len(line._waiting) <= 1
    gate.opened.set()
    await first
    line.close()


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_an_accepted_login_is_remembered_for_a_while_and_not_after_a_change() -> None:
    clock = Clock()
    users = {"u": User("u", PasswordHash.of(b"one"))}
    logins = Logins(users, clock)

    assert not logins.is_known("u", b"one")
    assert await logins.check("u", b"one", "::1")
    assert logins.is_known("u", b"one")
    assert not logins.is_known("u", b"two")
    assert not await logins.check("u", b"two", "::1")
    assert not logins.is_known("u", b"two")

    # Each use counts: who comes again and again never waits for a slow check.
    for _ in range(3):
        clock.seconds += REMEMBERED_SECONDS
        assert logins.is_known("u", b"one")
    clock.seconds += REMEMBERED_SECONDS + 1
    assert not logins.is_known("u", b"one")
    assert await logins.check("u", b"one", "::1")
    users["u"] = User("u", PasswordHash.of(b"two"))
    assert not logins.is_known("u", b"one")
    logins.close()


async def test_a_password_that_changes_while_it_is_checked_does_not_log_in() -> None:
    users = {"u": User("u", PasswordHash.of(b"one"))}
    logins = Logins(users)
    checking = asyncio.ensure_future(logins.check("u", b"one", "::1"))
    await asyncio.sleep(0)
    users["u"] = User("u", PasswordHash.quick(b"two"))

    assert not await checking
    logins.close()


async def test_tags_that_change_while_a_password_is_checked_refuse_nobody() -> None:
    users = {"u": User("u", PasswordHash.of(b"one"))}
    logins = Logins(users)
    checking = asyncio.ensure_future(logins.check("u", b"one", "::1"))
    await asyncio.sleep(0)
    users["u"] = User("u", users["u"].password, ("monitoring",))

    assert await checking
    logins.close()


async def test_a_refusal_takes_its_turn_whether_the_user_exists_or_not() -> None:
    users = {
        "slow": User("slow", PasswordHash.of(b"one")),
        "quick": User("quick", PasswordHash.quick(b"one")),
    }
    logins, gate = Logins(users), Gate()
    first = asyncio.ensure_future(logins._line.run(lambda: gate.check("first"), "::1"))
    waiting = []
    for name in ("slow", "quick", "nobody"):
        assert not logins.is_known(name, b"wrong")
        waiting.append(asyncio.ensure_future(logins.check(name, b"wrong", "::1")))
    waiting.append(asyncio.ensure_future(logins.check("quick", b"", "::1")))
    for _ in range(3):
        await asyncio.sleep(0)

    # The first check goes on, and each of them waits for it.
    assert not any(each.done() for each in waiting)
    assert len(logins._line) == len(waiting)
    gate.opened.set()
    await first
    assert await asyncio.gather(*waiting) == [False] * len(waiting)
    logins.close()
