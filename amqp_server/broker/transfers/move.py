"""Moves ready messages from one queue into another one.

The broker reads a part of the log, hands it over (`handing_over`), and goes on behind it. So a move
that ends early, also by a crash, loses nothing: what it has not settled is ready where it was. A
copy that was safe just before a crash is then there twice; the header `x-moved-offset` tells which
message it comes from.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqp_server.broker.header_filter import matches
from amqp_server.broker.subscriptions.log_pages import read_page
from amqp_server.broker.transfers.handing_over import CopyAt, hand_over
from amqp_server.broker.transfers.message_headers import with_headers
from amqp_server.broker.transfers.replay import (
    BATCH_BYTES,
    BATCH_MESSAGES,
    LOOK_AHEAD,
    PAUSE_SECONDS,
    ReplayStoppedError,
)
from amqp_server.protocol.field_values import FieldValue, field_value
from appendlog.layout.message import published_again

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from amqp_server.broker.header_filter import HeaderFilter
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.log_pages import LogPage

FROM_HEADER: Final = "x-moved-from"
"""Header with the name of the queue that a message was in."""
OFFSET_HEADER: Final = "x-moved-offset"
"""Header with the message's offset in that queue."""
AT_HEADER: Final = "x-moved-at"
"""Header with the time of the move, in seconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """Messages to move, and their target.

    Attributes:
        source: Queue that has them; no stream.
        target: Queue that gets them; another one.
        start: First offset.
        end: Offset after the last one; at most the source's `visible_end` at the start.
        count_max: Most messages that are moved.
        filters: Header filters that a message must all match.
        is_dry_run: Whether messages are only counted.
    """

    source: Queue
    target: Queue
    start: int
    end: int
    count_max: int
    filters: Sequence[HeaderFilter]
    is_dry_run: bool


class Move:
    """One running move. The event loop owns it.

    Args:
        request: Which messages to move.
        is_alarmed: Returns whether publishers are blocked by an alarm.
        report: Reports the progress; awaited after each part, and repeatedly during an alarm.

    Attributes:
        next_offset: Offset below which everything wanted is done.
        moved: Moved messages.
        moved_bytes: Bytes of their bodies, headers and routes.
        is_waiting: Whether it waits for the end of an alarm.
    """

    def __init__(
        self,
        request: MoveRequest,
        is_alarmed: Callable[[], bool],
        report: Callable[[Move], Awaitable[None]],
    ) -> None:
        self.next_offset = request.start
        self.moved = 0
        self.moved_bytes = 0
        self.is_waiting = False
        self._request = request
        self._is_alarmed = is_alarmed
        self._report = report

    async def run(self) -> None:
        """Move everything that is wanted and ready; what consumers hold stays with them.

        Raises:
            ReplayStoppedError: It cannot continue.
            LogFailedError: The source cannot be read.
        """
        request = self._request
        await request.source.loading.until_loaded()
        while self.next_offset < request.end and self.moved < request.count_max:
            await self._until_no_alarm()
            self._check()
            behind = min(request.end, self.next_offset + LOOK_AHEAD)
            ready = list(request.source.ready.within(self.next_offset, behind))
            if ready:
                begin = max(self.next_offset, ready[0][0])
                count = min(BATCH_MESSAGES, request.count_max - self.moved)
                page = await read_page(request.source, begin, behind, BATCH_BYTES, count)
                await self._put(await asyncio.to_thread(self._copies, page))
                behind = page.next_offset
            self.next_offset = behind
            await self._report(self)

    async def _until_no_alarm(self) -> None:
        while self._is_alarmed() and not self._request.is_dry_run:
            self.is_waiting = True
            await self._report(self)
            await asyncio.sleep(PAUSE_SECONDS)
        self.is_waiting = False

    def _check(self) -> None:
        """Check that both queues still exist and can be used.

        Raises:
            ReplayStoppedError: One of them cannot be used.
        """
        for queue in (self._request.source, self._request.target):
            if queue.is_deleted:
                raise ReplayStoppedError(f"queue '{queue.name}' was deleted")
        if self._request.target.is_failed and not self._request.is_dry_run:
            name = self._request.target.name
            raise ReplayStoppedError(f"the log of queue '{name}' cannot be written")

    def _copies(self, page: LogPage) -> list[CopyAt]:
        """Return copies of the wanted messages of a page. Runs in a worker."""
        request = self._request
        headers = {
            FROM_HEADER: field_value(request.source.name),
            AT_HEADER: FieldValue(b"T", request.source.store.log.time_ns() // 10**9),
        }
        copies: list[CopyAt] = []
        for offset, message in zip(page.offsets, page.messages, strict=True):
            if matches(message, request.filters):
                headers[OFFSET_HEADER] = FieldValue(b"l", offset)
                copy = with_headers(published_again(message), headers)
                copies.append(CopyAt(offset, copy))
        return copies

    async def _put(self, copies: Sequence[CopyAt]) -> None:
        """Move messages; return when they are safe in the target.

        Raises:
            ReplayStoppedError: The target did not take all; those that it took are counted.
        """
        source = self._request.source
        if self._request.is_dry_run:
            self._count(
                [each for each in copies if source.ready.within(each.offset, each.offset + 1)]
            )
            return
        done = await hand_over(source, self._request.target, copies)
        self._count(done.copies)
        if done.refused:
            if done.copies:
                self.next_offset = done.copies[-1].offset + 1
            self._check()
            name = self._request.target.name
            raise ReplayStoppedError(f"queue '{name}' is full and refuses more")

    def _count(self, copies: Sequence[CopyAt]) -> None:
        self.moved += len(copies)
        self.moved_bytes += sum(len(each.copy) for each in copies)
