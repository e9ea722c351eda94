"""Replay: publishes settled messages of a queue again, into the same queue or another one.

Settled messages stay settled. Each copy has a new offset at the end of its queue, and headers that
say where it comes from. The broker reads a part of the log, publishes it and waits until it is safe
before it reads the next part. So a client can continue from the last reported offset: messages
after it may be in the target already and are then duplicated, but none is left out.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqp_server.broker.header_filter import matches
from amqp_server.broker.subscriptions.log_pages import read_page
from amqp_server.broker.transfers.message_headers import with_headers
from amqp_server.broker.transfers.safe_publishes import SafePublishes
from amqp_server.protocol.field_values import FieldValue, field_value
from appendlog.layout.message import published_again

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from amqp_server.broker.header_filter import HeaderFilter
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.storing.retention_pins import RetentionPin
    from amqp_server.broker.subscriptions.log_pages import LogPage
    from offsets.settlement_snapshot import SettlementSnapshot

FROM_HEADER: Final = "x-replayed-from"
"""Header with the name of the queue that a message was replayed from."""
OFFSET_HEADER: Final = "x-replayed-offset"
"""Header with the message's offset in that queue."""
AT_HEADER: Final = "x-replayed-at"
"""Header with the time of the replay, in seconds since 1970 UTC."""

BATCH_BYTES: Final = 256 * 1024
"""Bytes that are read, published and made safe at a time."""
BATCH_MESSAGES: Final = 1024
LOOK_AHEAD: Final = 65_536
"""Offsets that one check for wanted messages covers."""
PAUSE_SECONDS: Final = 0.25
"""Time between two checks of whether an alarm is over."""


class ReplayStoppedError(Exception):
    """A replay that cannot continue; the parts that it reported are done. The text is one line."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Messages to replay, and their target.

    Attributes:
        source: Queue that the messages were in.
        target: Queue that gets them; may be the same.
        start: First offset.
        end: Offset after the last one; at most the source's `visible_end` at the start, so that
            a replay into the same queue ends.
        includes_all: Whether unsettled messages are copied too.
        filters: Header filters that a message must all match.
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
    """One running replay. The event loop owns it.

    Args:
        request: Which messages to replay.
        pin: Pin on the source's log; the replay moves it forward.
        is_alarmed: Returns whether publishers are blocked by an alarm.
        report: Reports the progress; awaited after each part, and repeatedly during an alarm.

    Attributes:
        next_offset: Offset below which everything wanted is safe in the target.
        replayed: Replayed messages.
        replayed_bytes: Bytes of their bodies, headers and routes.
        passed: Messages that were read but not wanted.
        lost: Messages that may have been wanted, and that damage of the log has taken.
        first_offset: Offset of the first replayed message; None before.
        last_offset: Offset of the last replayed message; None before.
        is_waiting: Whether the replay waits for the end of an alarm.
    """

    def __init__(
        self,
        request: ReplayRequest,
        pin: RetentionPin,
        is_alarmed: Callable[[], bool],
        report: Callable[[Replay], Awaitable[None]],
    ) -> None:
        self.next_offset = request.start
        self.replayed = 0
        self.replayed_bytes = 0
        self.passed = 0
        self.lost = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.is_waiting = False
        self._request = request
        self._pin = pin
        self._is_alarmed = is_alarmed
        self._report = report
        self._settled: SettlementSnapshot = request.source.settlement.snapshot(request.end)
        self._publishes = SafePublishes(request.target, self._check)

    async def run(self) -> None:
        """Replay everything; return when all of it is on the disk.

        Raises:
            ReplayStoppedError: The replay cannot continue.
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
                self.lost += sum(self._wanted_count(*lost) for lost in page.lost)
                await self._put(copies)
                behind = page.next_offset
            self.next_offset = self._pin.move(behind)
            await self._report(self)
        if request.target.is_journaled and not request.is_dry_run:
            # The target's own durability may promise less than this command does.
            await request.target.store.make_durable()
            self._check()

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
        source, target = self._request.source, self._request.target
        for queue in (source, target):
            if queue.is_deleted:
                raise ReplayStoppedError(f"queue '{queue.name}' was deleted")
        if target.is_failed and not self._request.is_dry_run:
            raise self._cannot_be_written()
        start = source.store.log.log_start_offset
        if start > self.next_offset:
            # The pin came too late for a removal that was already running.
            raise ReplayStoppedError(f"retention has removed all messages below offset {start}")

    def _cannot_be_written(self) -> ReplayStoppedError:
        name = self._request.target.name
        return ReplayStoppedError(f"the log of queue '{name}' cannot be written")

    def _wants_any(self, start: int, end: int) -> bool:
        return self._wanted_count(start, end) > 0

    def _wanted_count(self, start: int, end: int) -> int:
        """Return how many offsets of a range are wanted, whatever their messages say."""
        if self._request.includes_all:
            return end - start
        return self._settled.settled_count(start, end)

    def _copies(self, page: LogPage) -> list[tuple[int, bytes]]:
        """Return copies of the wanted messages, ready to publish, each with its offset."""
        request = self._request
        unsettled: list[tuple[int, int]] = []
        if not request.includes_all and page.offsets:
            unsettled = self._settled.live_ranges(page.offsets[0], page.offsets[-1] + 1)
        unsettled.reverse()
        headers = {
            FROM_HEADER: field_value(request.source.name),
            AT_HEADER: FieldValue(b"T", request.source.store.log.time_ns() // 10**9),
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
            copies.append((offset, with_headers(published_again(message), headers)))
        return copies

    async def _put(self, copies: list[tuple[int, bytes]]) -> None:
        """Publish messages; return when they are safe in the target.

        Raises:
            ReplayStoppedError: The target did not take all; those that it took are counted.
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
