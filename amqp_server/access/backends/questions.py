"""Questions to a back end: bounded, with a time limit, and their answers remembered for a while.

The event loop never waits for an answer: a caller gets the answer if it is known, or a future.
If a back end gives no answer, access is denied; the denial is cached for `FAILED_SECONDS`, so that
a back end that is down is not asked the same again and again.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import os
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from amqp_server.access.backends.backend import Identity, Refusal
from amqp_server.access.backends.failure_log import REASON_CHARACTERS_MAX, FailureLog
from amqp_server.access.user import NAME_BYTES_MAX, TAG_BYTES_MAX, TAGS_MAX
from amqp_server.base.waiting_list import WaitingList

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

REMEMBERED_SECONDS: Final = 15.0
"""Time for which an answer counts, as in RabbitMQ's cache of a back end."""
REFUSED_BEFORE_SECONDS: Final = 60.0
"""Time for which an earlier refusal of a login is taken while a new answer is asked for."""
FAILED_SECONDS: Final = 1.0
"""Time for which a question that failed counts as denied."""
ANSWERS_MAX: Final = 16_384
"""Answers that are remembered; above that, the oldest is forgotten."""
CLOSING_SECONDS_MAX: Final = 2.0
"""Time for a back end to end: one that does not must not keep the server from stopping."""
UNDER_WAY_MAX: Final = 32
"""Questions that one back end is asked at the same time."""
UNDER_WAY_PER_ADDRESS_MAX: Final = 24
"""Of these, those for clients of one address: it leaves places to others."""

Answer: TypeAlias = Identity | Refusal | bool


class Known(NamedTuple):
    """An answer that is remembered.

    Attributes:
        answer: The answer.
        until: When it ends to count, on the clock of the questions.
    """

    answer: Answer
    until: float


class Questions:
    """The questions to one back end and its answers. The event loop owns it.

    Args:
        backend: Name of the back end, for the log.
        seconds_max: Time until an answer must be there, with the time that the question waits.
        now: Returns seconds that never decrease.

    Attributes:
        failures: Failures of the back end.
        asked_count: Questions that the back end was asked.
    """

    def __init__(
        self, backend: str, seconds_max: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.failures = FailureLog(backend, now)
        self.asked_count = 0
        self._seconds_max = seconds_max
        self._now = now
        self._known: dict[Hashable, Known] = {}
        self._under_way: dict[Hashable, asyncio.Future[None]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._waiting_list = WaitingList(UNDER_WAY_MAX, UNDER_WAY_PER_ADDRESS_MAX)
        self._key = os.urandom(32)

    @property
    def waiting_count(self) -> int:
        """Questions that wait until others are answered."""
        return len(self._waiting_list)

    @property
    def remembered_count(self) -> int:
        """Answers that are remembered."""
        return len(self._known)

    def digest(self, *secrets: str) -> bytes:
        """Return a digest that stands for secrets in a key; its own key is only in this process."""
        octets = [each.encode("utf-8", "surrogatepass") for each in secrets]
        joined = b"".join(len(each).to_bytes(8, "big") + each for each in octets)
        return hmac.digest(self._key, joined, "sha256")

    def known(self, key: Hashable) -> Known | None:
        """Return the answer to a question if it still counts."""
        found = self._known.get(key)
        return None if found is None or found.until <= self._now() else found

    def refused_before(self, key: Hashable) -> Refusal | None:
        """Return the refusal of a login that has ceased to count a moment ago, if it was one."""
        found = self._known.get(key)
        if found is None or found.until + REFUSED_BEFORE_SECONDS <= self._now():
            return None
        return found.answer if isinstance(found.answer, Refusal) else None

    def ask(
        self,
        key: Hashable,
        call: Callable[[], Coroutine[Any, Any, object]],
        expected: type[bool] | type[Identity],
        what: str,
        address: str,
    ) -> asyncio.Future[None]:
        """Ask the back end, unless the same question is under way.

        Args:
            key: Question; the same for the same question only.
            call: Asks it.
            expected: Type of the answer; a `Refusal` may come instead of an `Identity`.
            what: Question for the log, without secrets.
            address: IP address of the client who needs the answer.

        Returns:
            A future that ends, without an error, when the answer is known; do not cancel it.
        """
        found = self._under_way.get(key)
        if found is None:
            found = self._under_way[key] = asyncio.get_running_loop().create_future()
            self._begin(self._answer(key, call, expected, what, address))
        return found

    async def answer_to(
        self,
        key: Hashable,
        call: Callable[[], Coroutine[Any, Any, object]],
        expected: type[bool] | type[Identity],
        what: str,
        address: str,
    ) -> Answer:
        """Return the answer to a question, which the back end is asked if it is not known."""
        found = self.known(key)
        if found is None:
            await asyncio.wait([self.ask(key, call, expected, what, address)])
            found = self.known(key)
        if found is None:
            # So many answers came in the same moment that this one is forgotten.
            return Refusal("too many answers at once") if expected is Identity else False
        return found.answer

    async def close(self) -> None:
        """Cancel what is under way; return when it has ended, or after `CLOSING_SECONDS_MAX`."""
        for task in tuple(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSING_SECONDS_MAX)

    # One question

    async def _answer(
        self,
        key: Hashable,
        call: Callable[[], Coroutine[Any, Any, object]],
        expected: type[bool] | type[Identity],
        what: str,
        address: str,
    ) -> None:
        answer: Answer = Refusal("the server stops") if expected is Identity else False
        seconds = FAILED_SECONDS
        # A task of its own: one that does not end when it is cancelled keeps its place in the list,
        # and no caller waits for it.
        calling = self._begin(self._call(call, address))
        try:
            await asyncio.wait([calling], timeout=self._seconds_max)
            failure = self._failure_of(calling, expected)
            if not failure:
                answer, seconds = _cut(calling.result()), REMEMBERED_SECONDS
            else:
                answer = Refusal(failure) if expected is Identity else False
                self.failures.note(what, failure)
        finally:
            calling.cancel()
            self._remember(key, answer, seconds)
            self._under_way.pop(key).set_result(None)

    def _failure_of(self, calling: asyncio.Task[Any], expected: type[bool] | type[Identity]) -> str:
        """Return why a call has no answer; empty if it has one."""
        if not calling.done():
            return f"no answer within {self._seconds_max:g} s"
        if calling.cancelled():
            return "the call was cancelled"
        error = calling.exception()
        if error is not None:
            return f"{type(error).__name__}: {error}"
        return _why_no_answer(calling.result(), expected)

    async def _call(self, call: Callable[[], Coroutine[Any, Any, object]], address: str) -> object:
        async with self._waiting_list.place(address):
            self.asked_count += 1
            try:
                return await call()
            except SystemExit as end:
                # It would end the event loop, and the server.
                raise RuntimeError(f"it has called exit({end.code!r})") from None

    def _remember(self, key: Hashable, answer: Answer, seconds: float) -> None:
        self._known.pop(key, None)
        if len(self._known) >= ANSWERS_MAX:
            del self._known[next(iter(self._known))]
        self._known[key] = Known(answer, self._now() + seconds)

    def _begin(self, coroutine: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # The waiting callers have the error; one that came too late is no mistake.
            task.exception()


def _cut(answer: Answer) -> Answer:
    """Return an answer that can be remembered: the reason of a refusal may be of any length."""
    if isinstance(answer, Refusal) and len(answer.reason) > REASON_CHARACTERS_MAX:
        return Refusal(answer.reason[:REASON_CHARACTERS_MAX])
    return answer


def _why_no_answer(answer: Any, expected: type[bool] | type[Identity]) -> str:  # noqa: ANN401
    """Return why something that a back end returned is no answer; empty if it is one."""
    if expected is bool:
        return "" if isinstance(answer, bool) else f"the answer is no bool but {answer!r:.80}"
    if isinstance(answer, Refusal):
        reason: Any = answer.reason
        return "" if isinstance(reason, str) else "the reason of a refusal is no text"
    if not isinstance(answer, Identity):
        return f"the answer is neither Identity nor Refusal but {type(answer).__name__}"
    return _why_no_identity(answer)


def _why_no_identity(found: Any) -> str:  # noqa: ANN401 - whatever the types say
    if not _is_name(found.name, NAME_BYTES_MAX):
        return f"the name of a user must be a text of 1 to {NAME_BYTES_MAX} bytes"
    if not isinstance(found.tags, tuple) or len(found.tags) > TAGS_MAX:
        return f"the tags of a user must be a tuple of at most {TAGS_MAX}"
    if not all(_is_name(tag, TAG_BYTES_MAX) for tag in found.tags):
        return f"a tag must be a text of 1 to {TAG_BYTES_MAX} bytes"
    if found.expires is not None and not _is_time(found.expires):
        return "the time at which a login expires must be a number or None"
    try:
        hash(found)
    except TypeError:
        return "the data of an identity must be hashable"
    return ""


def _is_time(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _is_name(text: object, bytes_max: int) -> bool:
    if not isinstance(text, str):
        return False
    try:
        return 0 < len(text.encode()) <= bytes_max
    except UnicodeEncodeError:
        return False
