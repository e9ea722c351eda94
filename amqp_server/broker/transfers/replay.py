"""Replay: what was settled in a queue is put back, into the same queue or into another one.

What was settled stays settled: each message is published anew, so that it has an offset at the end
of its queue, and says in its headers where it comes from. A part of the log is read, published and
safe before the next one is read. So whoever is told how far it came can go on from there: what
follows may be in the queue already, and is then there twice; nothing is left out.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqp_server.broker.header_filter import matches
from amqp_server.broker.subscriptions.log_pages import read_page
from amqp_server.broker.transfers.message_headers import with_headers
from amqp_server.broker.transfers.safe_publishes import SafePublishes
from amqp_server.protocol.field_values import FieldValue, field_value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from amqp_server.broker.header_filter import HeaderFilter
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.storing.retention_pins import RetentionPin
    from amqp_server.broker.subscriptions.log_pages import LogPage
    from offsets.settlement_snapshot import SettlementSnapshot

FROM_HEADER: Final = "x-replayed-from"
"""Name of the queue that a message was replayed from."""
OFFSET_HEADER: Final = "x-replayed-offset"
"""Its offset there."""
AT_HEADER: Final = "x-replayed-at"
"""When, in seconds since 1970 UTC."""

BATCH_BYTES: Final = 256 * 1024
"""Read, published and made safe at a time."""
BATCH_MESSAGES: Final = 1024
LOOK_AHEAD: Final = 65_536
"""Offsets of which it is asked at once whether any is wanted."""
PAUSE_SECONDS: Final = 0.25
"""How often it is looked whether an alarm is over."""


class ReplayStoppedError(Exception):
    """A replay that cannot go on; what it has told of is done. The text is one line."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is to be replayed.

    Attributes:
        source: The queue that it was in.
        target: Where to; may be the same.
        start: First offset.
        end: Exclusive; below the source's `visible_end` when it began, so that a replay into the
            same queue has an end.
        includes_all: Whether unsettled messages are copied too.
        filters: Only messages that have all of these headers.
        is_dry_run: Whether messages are only counted.
    """

    source: Queue
    target: Queue
    start: int
    end: int
    includes_all: bool
    filters: Sequence[HeaderFilter]
    is_dry_run: bool


class Replay:
    """One replay at work. The event loop owns it.

    Args:
        request: What is to be done.
        pin: On the source's log; moved as it goes on.
        is_alarmed: Tells whether publishers have to wait.
        tell: Awaited after each part, and now and then while it waits.

    Attributes:
        next_offset: All below it is done: safe in its new queue, as far as it was wanted.
        replayed: Messages put back.
        replayed_bytes: Their bodies, headers and routes.
        passed: Messages that were looked at and not wanted.
        first_offset: Of the first message that was put back; None before.
        last_offset: Of the last one.
        is_waiting: Whether an alarm keeps it from going on.
    """

    def __init__(
        self,
        request: ReplayRequest,
        pin: RetentionPin,
        is_alarmed: Callable[[], bool],
        tell: Callable[[Replay], Awaitable[None]],
    ) -> None:
        self.next_offset = request.start
        self.replayed = self.replayed_bytes = self.passed = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.is_waiting = False
        self._request = request
        self._pin = pin
        self._is_alarmed = is_alarmed
        self._tell = tell
        self._settled: SettlementSnapshot = request.source.settlement.snapshot(request.end)
        self._publishes = SafePublishes(request.target, self._check)

    async def run(self) -> None:
        """Replay everything; done when all of it is on the disk.

        Raises:
            ReplayStoppedError: It cannot go on.
            LogFailedError: The source cannot be read.
        """
        request = self._request
        while self.next_offset < request.end:
            await self._until_no_alarm()
            self._check()
            behind = min(request.end, self.next_offset + LOOK_AHEAD)
            if self._wants_any(self.next_offset, behind):
                page = await read_page(
                    request.source, self.next_offset, behind, BATCH_BYTES, BATCH_MESSAGES
                )
                copies = await asyncio.to_thread(self._copies, page)
                self.passed += len(page.offsets) - len(copies)
                await self._put(copies)
                behind = page.next_offset
            self.next_offset = self._pin.move(behind)
            await self._tell(self)
        if request.target.is_journaled and not request.is_dry_run:
            # Its own durability may promise less than this command does.
            await request.target.store.make_durable()
            self._check()

    async def _until_no_alarm(self) -> None:
        while self._is_alarmed() and not self._request.is_dry_run:
            self.is_waiting = True
            await self._tell(self)
            await asyncio.sleep(PAUSE_SECONDS)
        self.is_waiting = False

    def _check(self) -> None:
        """Check that both queues are as they were.

        Raises:
            ReplayStoppedError: One is not.
        """
        source, target = self._request.source, self._request.target
        for queue in (source, target):
            if queue.is_deleted:
                raise ReplayStoppedError(f"queue '{queue.name}' was deleted")
        if target.store.is_failed and not self._request.is_dry_run:
            raise self._cannot_be_written()
        start = source.store.log.log_start_offset
        if start > self.next_offset:
            # It was being removed when the pin came.
            raise ReplayStoppedError(f"retention has removed what is below offset {start}")

    def _cannot_be_written(self) -> ReplayStoppedError:
        name = self._request.target.name
        return ReplayStoppedError(f"the log of queue '{name}' cannot be written")

    def _wants_any(self, start: int, end: int) -> bool:
        if self._request.includes_all:
            return True
        return bool(self._settled.settled_count(start, end))

    def _copies(self, page: LogPage) -> list[tuple[int, bytes]]:
        """Return the wanted messages as they are published anew, each with its offset."""
        request = self._request
        unsettled: list[tuple[int, int]] = []
        if not request.includes_all and page.offsets:
            unsettled = self._settled.live_ranges(page.offsets[0], page.offsets[-1] + 1)
        unsettled.reverse()
        headers = {
            FROM_HEADER: field_value(request.source.name),
            AT_HEADER: FieldValue(b"T", int(time.time())),
        }
        copies: list[tuple[int, bytes]] = []
        for offset, message in zip(page.offsets, page.messages, strict=True):
            while unsettled and unsettled[-1][1] <= offset:
                unsettled.pop()
            if unsettled and unsettled[-1][0] <= offset:
                continue
            if not matches(message, request.filters):
                continue
            headers[OFFSET_HEADER] = FieldValue(b"l", offset)
            copies.append((offset, with_headers(message, headers)))
        return copies

    async def _put(self, copies: list[tuple[int, bytes]]) -> None:
        """Publish messages and return when they are safe in their queue.

        Raises:
            ReplayStoppedError: They cannot all be put there; those that are there are counted.
        """
        is_dry_run = self._request.is_dry_run
        count = len(copies)
        if not is_dry_run:
            count = await self._publishes.publish([message for _, message in copies])
            await self._publishes.until_safe()
            if self._publishes.is_refused:
                raise self._cannot_be_written()
        if count:
            self.replayed += count
            self.replayed_bytes += sum(len(message) for _, message in copies[:count])
            self.first_offset = copies[0][0] if self.first_offset is None else self.first_offset
            self.last_offset = copies[count - 1][0]
        if count < len(copies):
            self.next_offset = copies[count][0]
            name = self._request.target.name
            raise ReplayStoppedError(f"queue '{name}' is full and refuses more")
