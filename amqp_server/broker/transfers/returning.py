"""Returns dead letters to the queues that they came from.

The header `x-death` says in which queue a message died. Its copy goes there directly, with the
exchange and routing key that it had; no exchange routes it, so no other queue gets it again. None
is lost (`handing_over`); after a crash there may be both, and the header `x-returned-offset` tells
which dead letter a copy comes from.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from amqp_server.broker.header_filter import matches
from amqp_server.broker.subscriptions.log_pages import read_page
from amqp_server.broker.transfers.dead_letter import deaths_of
from amqp_server.broker.transfers.handing_over import CopyAt, hand_over
from amqp_server.broker.transfers.message_headers import with_headers
from amqp_server.broker.transfers.replay import (
    BATCH_BYTES,
    LOOK_AHEAD,
    PAUSE_SECONDS,
    ReplayStoppedError,
)
from amqp_server.protocol.field_values import FieldValue, field_value
from amqp_server.protocol.readable_headers import readable_properties
from appendlog.layout.message import (
    HAS_HEADERS,
    decode_message,
    encode_message,
    published_again,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from amqp_server.broker.header_filter import HeaderFilter
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.log_pages import LogPage
    from amqp_server.protocol.tables import Table

FROM_HEADER: Final = "x-returned-from"
"""Header with the name of the queue that had the dead letter."""
OFFSET_HEADER: Final = "x-returned-offset"
"""Header with the message's offset in that queue."""
BATCH_MESSAGES: Final = 256
"""Messages that are read, published and made safe at a time."""
NAME_BYTES_MAX: Final = 255
AT_HEADER: Final = "x-returned-at"
"""Header with the time of the return, in seconds since 1970 UTC."""


class Left(StrEnum):
    """Why a message stays where it is."""

    NO_DEATH = "no_death"
    """It has no readable `x-death`: it was not dead-lettered here."""
    NO_QUEUE = "no_queue"
    """The queue that it came from does not exist."""
    REFUSED = "refused"
    """That queue is full and refuses more, or its log cannot be written."""


@dataclass(frozen=True, slots=True)
class ReturnRequest:
    """Dead letters to return.

    Attributes:
        source: Queue that has them; no stream.
        queues: Queues of its virtual host by name; may change.
        start: First offset.
        end: Offset after the last one; at most the source's `visible_end` at the start.
        filters: Header filters that a message must all match.
        is_dry_run: Whether messages are only counted.
    """

    source: Queue
    queues: Mapping[str, Queue]
    start: int
    end: int
    filters: Sequence[HeaderFilter]
    is_dry_run: bool


class Return:
    """One running return of dead letters. The event loop owns it.

    Args:
        request: Which dead letters to return.
        is_alarmed: Returns whether publishers are blocked by an alarm.
        report: Reports the progress; awaited after each part, and repeatedly during an alarm.

    Attributes:
        next_offset: Offset below which everything wanted is done.
        returned: Returned messages, by the queue that got them.
        returned_bytes: Bytes of their bodies, headers and routes.
        left: Wanted messages that stay, by the reason.
        is_waiting: Whether it waits for the end of an alarm.
    """

    def __init__(
        self,
        request: ReturnRequest,
        is_alarmed: Callable[[], bool],
        report: Callable[[Return], Awaitable[None]],
    ) -> None:
        self.next_offset = request.start
        self.returned: Counter[str] = Counter()
        self.returned_bytes = 0
        self.left: Counter[Left] = Counter()
        self.is_waiting = False
        self._request = request
        self._is_alarmed = is_alarmed
        self._report = report

    async def run(self) -> None:
        """Return everything that is wanted and ready; what consumers hold stays with them.

        Raises:
            ReplayStoppedError: It cannot continue.
            LogFailedError: The source cannot be read.
        """
        request = self._request
        await request.source.loading.until_loaded()
        while self.next_offset < request.end:
            await self._until_no_alarm()
            self._check()
            behind = min(request.end, self.next_offset + LOOK_AHEAD)
            ready = list(request.source.ready.within(self.next_offset, behind))
            if ready:
                begin = max(self.next_offset, ready[0][0])
                page = await read_page(request.source, begin, behind, BATCH_BYTES, BATCH_MESSAGES)
                letters = await asyncio.to_thread(self._letters, page)
                for name, of_one in letters.items():
                    await self._put(name, of_one)
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
        """Check that the source still exists.

        Raises:
            ReplayStoppedError: It was deleted.
        """
        source = self._request.source
        if source.is_deleted:
            raise ReplayStoppedError(f"queue '{source.name}' was deleted")

    def _letters(self, page: LogPage) -> dict[str, list[CopyAt]]:
        """Return the wanted messages of a page, by the queue that they came from.

        Runs in a worker.
        """
        request = self._request
        at_seconds = request.source.store.log.time_ns() // 10**9
        marks: Table = {
            FROM_HEADER: field_value(request.source.name),
            AT_HEADER: FieldValue(b"T", at_seconds),
        }
        letters: dict[str, list[CopyAt]] = {}
        for offset, message in zip(page.offsets, page.messages, strict=True):
            if matches(message, request.filters):
                marks[OFFSET_HEADER] = FieldValue(b"l", offset)
                name, copy = _returned(message, request.source.name, marks)
                letters.setdefault(name, []).append(CopyAt(offset, copy))
        return letters

    async def _put(self, name: str, letters: list[CopyAt]) -> None:
        """Return messages that came from one queue; return when they are safe there.

        Args:
            name: Name of that queue; empty if the messages do not say.
            letters: At least one, by offset.
        """
        source, target = self._request.source, self._request.queues.get(name)
        if target is None or self._request.is_dry_run:
            ready = [each for each in letters if source.ready.within(each.offset, each.offset + 1)]
            if target is not None:
                self._count(name, ready)
            elif ready:
                self.left[Left.NO_QUEUE if name else Left.NO_DEATH] += len(ready)
            return
        done = await hand_over(source, target, letters)
        self._count(name, done.copies)
        if done.refused:
            self.left[Left.REFUSED] += done.refused

    def _count(self, name: str, letters: Sequence[CopyAt]) -> None:
        if letters:
            self.returned[name] += len(letters)
            self.returned_bytes += sum(len(letter.copy) for letter in letters)


def _returned(message: bytes, source: str, marks: Table) -> tuple[str, bytes]:
    """Return the name of the queue that a dead letter came from, and its copy for that queue.

    Args:
        message: The dead letter.
        source: Queue that has it.
        marks: Headers that it gets.

    Returns:
        An empty name, if its headers do not say.
    """
    view = decode_message(published_again(message))
    if not view.flags & HAS_HEADERS:
        return "", b""
    own = source.encode("utf-8", "surrogateescape")
    for death in deaths_of(readable_properties(view.properties).headers or {}):
        name = _text(death, "queue")
        if name is None or name == own:
            # It has circled: the queue that it came from before is meant.
            continue
        exchange, key = _text(death, "exchange"), _first(death, "routing-keys")
        restored = encode_message(
            view.flags,
            view.exchange if exchange is None else exchange[:NAME_BYTES_MAX],
            view.routing_key if key is None else key[:NAME_BYTES_MAX],
            view.properties,
            view.body,
        )
        return name.decode("utf-8", "surrogateescape"), with_headers(restored, marks)
    return "", b""


def _text(table: Table, name: str) -> bytes | None:
    field = table.get(name)
    return field.value if field is not None and isinstance(field.value, bytes) else None


def _first(table: Table, name: str) -> bytes | None:
    field = table.get(name)
    if field is None or not isinstance(field.value, list) or not field.value:
        return None
    value = field.value[0].value
    return value if isinstance(value, bytes) else None
