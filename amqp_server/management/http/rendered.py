"""Answers that many clients poll: made once for all who ask with the same rights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from amqp_server.management.http.answers import AnyAnswer, Octets
from amqp_server.management.http.responses import COMPRESSED_BYTES_MIN, compress, takes_gzip

if TYPE_CHECKING:
    from collections.abc import Hashable

    from amqp_server.management.http.call import Call

KEPT_SECONDS: Final = 1.0
"""Seconds for which a costly answer is given again, unless something was changed by this API."""
COSTLY_SECONDS: Final = 0.02
"""An answer that took less is made anew for every request, so that it shows the present."""
KEPT_MAX: Final = 16


@dataclass(slots=True)
class _Kept:
    made_seconds: float
    answer: Octets
    packing: asyncio.Task[bytes] | None = None


class RenderedLists:
    """Keeps costly answers for a moment."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}
        self._under_way: dict[Hashable, asyncio.Task[AnyAnswer]] = {}
        self._changes = 0

    def forget(self) -> None:
        """Give no earlier answer from now on: something has changed."""
        self._changes += 1
        self._kept.clear()

    async def answer(self, call: Call, make: Callable[[], Awaitable[AnyAnswer]]) -> AnyAnswer:
        """Return the answer to a request for a list.

        Args:
            call: The request.
            make: Makes the answer; depends on nothing but path, query and rights of the request.
        """
        key = _key(call)
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept.made_seconds < KEPT_SECONDS:
            return await _packed(call, kept)
        # A request that came after a change must not get what was begun before it.
        number = (key, self._changes)
        task = self._under_way.get(number)
        if task is None:
            task = asyncio.ensure_future(self._make(key, make))
            self._under_way[number] = task
            task.add_done_callback(lambda done: self._end(number, done))
        answer = await asyncio.shield(task)
        kept = self._kept.get(key)
        if kept is not None and kept.answer is answer:
            return await _packed(call, kept)
        return answer

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[AnyAnswer]]) -> AnyAnswer:
        changes, began = self._changes, time.process_time()
        answer = await make()
        is_costly = time.process_time() - began >= COSTLY_SECONDS
        if isinstance(answer, Octets) and is_costly and changes == self._changes:
            self._kept[key] = _Kept(time.monotonic(), answer)
            while len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._drop_old)
        return answer

    def _drop_old(self) -> None:
        now = time.monotonic()
        for key, kept in tuple(self._kept.items()):
            if now - kept.made_seconds >= KEPT_SECONDS:
                del self._kept[key]

    def _end(self, number: Hashable, task: asyncio.Task[AnyAnswer]) -> None:
        self._under_way.pop(number, None)
        if not task.cancelled():
            # All who asked may have gone: an error that nobody takes is no mistake.
            task.exception()


async def _packed(call: Call, kept: _Kept) -> Octets:
    """Return a kept answer, compressed if its client wants that: once for all of them."""
    answer = kept.answer
    if len(answer.body) < COMPRESSED_BYTES_MIN or not takes_gzip(call.request):
        return answer
    if kept.packing is None:
        kept.packing = asyncio.ensure_future(compress(answer.body))
    return replace(answer, gzipped=await asyncio.shield(kept.packing))


def _key(call: Call) -> Hashable:
    """Return what an answer depends on: what is asked for, and by whom."""
    user = call.user
    name = "" if user.is_monitor else user.name
    vhosts = None if user.is_administrator else user.vhosts
    return call.path, tuple(sorted(call.query.items())), name, vhosts, user.is_monitor
