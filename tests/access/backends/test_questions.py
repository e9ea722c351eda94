"""Questions to a back end: what is remembered, how many are asked at once, and whose turn it is."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from amqp_server.access.backends import questions as module
from amqp_server.access.backends.backend import Backend, Identity
from amqp_server.access.backends.failure_log import SECONDS_BETWEEN_LINES, FailureLog
from amqp_server.access.backends.login import Login
from amqp_server.access.backends.login_rules import AskedRules
from amqp_server.access.backends.oauth2.scopes import TokenScopes
from amqp_server.access.backends.oauth2.token_grants import TokenGrants
from amqp_server.access.backends.questions import FAILED_SECONDS, REMEMBERED_SECONDS, Questions
from amqp_server.access.grants import Grants, UnansweredError
from amqp_server.access.permissions import FULL, Right, TopicPermissions
from amqp_server.access.visitors import KEPT_SECONDS, VISITORS_MAX, Visitors
from tests.limits import HANG_SECONDS


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


async def true() -> bool:
    return True


async def fail() -> bool:
    raise OSError("down")


async def ask(
    questions: Questions, key: str, call: Callable[[], Awaitable[bool]] = true, address: str = "::1"
) -> object:
    async def run() -> bool:
        return await call()

    return await questions.answer_to(key, run, bool, key, address)


async def test_an_answer_counts_for_its_time() -> None:
    clock = Clock()
    questions = Questions("b", 5, clock)
    for seconds, count in ((0.0, 1), (REMEMBERED_SECONDS - 0.1, 1), (0.2, 2)):
        clock.seconds += seconds
        assert await ask(questions, "q") is True
        assert questions.asked_count == count


async def test_a_failure_denies_for_its_time() -> None:
    clock = Clock()
    questions = Questions("b", 5, clock)
    for seconds, count in ((0.0, 1), (FAILED_SECONDS - 0.1, 1), (0.2, 2)):
        clock.seconds += seconds
        assert await ask(questions, "q", fail) is False
        assert questions.asked_count == count
    assert questions.failures.last_reason == "OSError: down"


async def test_the_oldest_answers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWERS_MAX", 3)
    questions = Questions("b", 5)
    for key in "abcd":
        await ask(questions, key)
    assert questions.remembered_count == 3
    assert [key for key in "abcd" if questions.known(key)] == ["b", "c", "d"]


async def test_the_same_question_is_asked_once_at_a_time() -> None:
    questions = Questions("b", 5)
    assert await asyncio.gather(*(ask(questions, "q") for _ in range(100))) == [True] * 100
    assert questions.asked_count == 1


async def test_so_many_are_under_way_and_no_more() -> None:
    questions = Questions("b", 5)
    gate = asyncio.Event()
    active, most = 0, 0

    async def slow() -> bool:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await gate.wait()
        active -= 1
        return True

    asked = [asyncio.ensure_future(ask(questions, str(n), slow, str(n))) for n in range(100)]
    while questions.waiting_count < 100 - module.UNDER_WAY_MAX:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*asked) == [True] * 100
    assert most == module.UNDER_WAY_MAX


async def test_a_call_that_does_not_end_keeps_its_place_and_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CLOSING_SECONDS_MAX", 0.01)
    questions = Questions("b", 0.01)

    async def stubborn() -> bool:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if is_over:
                    raise

    is_over = False
    for number in range(module.UNDER_WAY_MAX):
        assert await ask(questions, str(number), stubborn, str(number)) is False
    assert await ask(questions, "one more") is False
    assert questions.asked_count == module.UNDER_WAY_MAX
    # Nor does the server's stop.
    await questions.close()
    is_over = True
    await questions.close()


async def test_closing_ends_what_waits() -> None:
    questions = Questions("b", 5)
    waiting = asyncio.ensure_future(ask(questions, "q", asyncio.Event().wait))
    while not questions.asked_count:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    await questions.close()
    assert await waiting is False


async def test_rights_are_asked_for_once_and_grow_out_of_date() -> None:
    asked: list[str] = []

    class Backend:
        async def authenticate(self, user: str, password: str | None, peer: str) -> Identity:
            return Identity(user)

        async def may_open_vhost(self, identity: Identity, vhost: str, peer: str) -> bool:
            return True

        async def may_use(
            self, identity: Identity, vhost: str, kind: str, name: str, right: str
        ) -> bool:
            asked.append(f"{kind} {name} {right}")
            return name == "yes"

        async def may_use_topic(
            self, identity: Identity, vhost: str, exchange: str, routing_key: str, right: str
        ) -> bool:
            return False

    clock = Clock()
    questions = Questions("b", 5, clock)
    rules = AskedRules(Backend(), questions, Identity("alice"), "::1", clock)
    granted = rules.grants("alice", "/")
    for name, answer in (("yes", True), ("no", False)):
        with pytest.raises(UnansweredError) as unanswered:
            granted.allows(Right.READ, "queue", name)
        await asyncio.wait([unanswered.value.answer])
        assert granted.allows(Right.READ, "queue", name) is answer
    # Another user's answers are other answers.
    other = AskedRules(Backend(), questions, Identity("bob"), "::1", clock)
    with pytest.raises(UnansweredError):
        other.grants("bob", "/").allows(Right.READ, "queue", "yes")
    assert rules.generation == 0
    clock.seconds += REMEMBERED_SECONDS
    with pytest.raises(UnansweredError):
        granted.allows(Right.READ, "queue", "yes")
    assert not granted.may_publish_all
    await questions.close()


async def test_long_routing_keys_are_not_remembered() -> None:
    long = "key" * 10_000

    class Own:
        async def may_use_topic(self, *asked: object) -> bool:
            return asked[3] == long

    questions = Questions("b", 5)
    rules = AskedRules(cast("Backend", Own()), questions, Identity("alice"), "::1")
    granted = rules.grants("alice", "/")
    with pytest.raises(UnansweredError) as unanswered:
        granted.allows_topic(Right.WRITE, "e", long)
    await unanswered.value.answer
    assert granted.allows_topic(Right.WRITE, "e", long)
    assert len(repr(questions._known)) < 1000
    every = TopicPermissions(".*", ".*")
    own = Grants("alice", "/", FULL, {"e": every})
    token = TokenGrants(tuple(TokenScopes(("write:*/*/*",)).permissions_in("/")), ())
    for each in (own, token):
        for key in (long, "short"):
            assert each.allows_topic(Right.WRITE, "e", key)
        assert len(repr(gc.get_referents(each))) < 1000


async def test_the_generation_grows_when_the_first_used_answer_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REMEMBERED_SECONDS", 0.01)
    questions = Questions("b", 5)

    class Backend:
        async def may_open_vhost(self, *_: object) -> bool:
            return True

    rules = AskedRules(Backend(), questions, Identity("alice"), "::1")  # type: ignore[arg-type]
    with pytest.raises(UnansweredError) as unanswered:
        rules.may_access("alice", "/")
    await asyncio.wait([unanswered.value.answer])
    assert rules.may_access("alice", "/")
    async with asyncio.timeout(HANG_SECONDS):
        while rules.generation == 0:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)


def test_failures_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = FailureLog("http", clock)
    for _ in range(1000):
        log.note("question", "down " + "x" * 1000)
    clock.seconds += SECONDS_BETWEEN_LINES
    log.note("question", "still down")
    assert len(caplog.messages) == 2
    assert "unlogged=999" in caplog.messages[1]
    assert len(caplog.messages[0]) < 1000
    assert log.count == 1001


def test_digests_tell_where_one_secret_ends() -> None:
    questions = Questions("b", 5)
    assert questions.digest("ab", "c") != questions.digest("a", "bc")
    assert questions.digest("ab", "c") == questions.digest("ab", "c")
    assert questions.digest("a") != Questions("b", 5).digest("a")


def test_visitors_are_bounded_and_forgotten() -> None:
    clock = Clock()
    visitors = Visitors(clock)

    def login(name: str, expires: float | None = None) -> Login:
        return Login(name, (), "b", None, Identity(name, expires=expires))  # type: ignore[arg-type]

    key = visitors.admit(login("alice"), "::1")
    assert visitors.admit(login("alice"), "::1") == key
    assert visitors.admit(login("alice"), "::2") != key
    found = visitors.find(key)
    assert found is not None
    assert found.user == "alice"
    assert visitors.find("") is None
    assert visitors.find(visitors.admit(login("expired", expires=1.0), "::1")) is None
    for number in range(VISITORS_MAX - 1):
        visitors.admit(login(str(number)), "::1")
    assert len(visitors) == VISITORS_MAX
    assert visitors.find(key) is None
    last = visitors.admit(login("last"), "::1")
    clock.seconds += KEPT_SECONDS
    assert visitors.find(last) is None
