"""The command `queues.browse`: returns a queue's messages page by page, changing nothing."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.access.permissions import Right
from amqp_server.admin.offset_text import parse_offset_text
from amqp_server.admin.views.record_view import browsed_rows
from amqp_server.broker.header_filter import HeaderFilter, parse_filter
from amqp_server.broker.message_states import MessageState, states_of
from amqp_server.broker.subscriptions.log_pages import read_page
from amqp_server.broker.subscriptions.start_position import start_offset
from amqp_server.control.command_channel import refused
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.control.requesting_user import rights_in
from appendlog import LogFailedError
from appendlog.layout.message import body_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.message_states import StateRun
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.log_pages import LogPage
    from amqp_server.broker.subscriptions.start_position import StartPosition

PAGE_MESSAGES_MAX: Final = 1000
"""Messages in one reply; for more, pass its `next` as `start`."""
PAGE_BYTES_MAX: Final = 1 << 20
"""Size of a reply: it ends after the message that reaches this many bytes."""
PAGE_SECONDS_MAX: Final = 0.5
"""Seconds after which a reply ends although it may have no messages yet."""
READ_BYTES: Final = 256 * 1024
"""Bytes that are read from the log at a time."""
READ_MESSAGES: Final = 1024
LOOK_AHEAD: Final = 16_384
"""Offsets whose states are computed in one turn of the event loop."""
BODY_WHOLE: Final = -1


@dataclass(slots=True)
class _Page:
    """The rows of one reply, and the request's filters."""

    state: str
    filters: Sequence[HeaderFilter]
    body_bytes_max: int | None
    limit: int
    rows: list[bytes]
    row_bytes: int = 0
    search: bytes = b""

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= self.limit or self.row_bytes >= PAGE_BYTES_MAX

    def add(self, found: LogPage, states: Sequence[StateRun]) -> int:
        """Add the records that match; return the next offset to read. Runs in a worker."""
        kinds = states_of(states, found.offsets)
        records = [
            record
            for record in zip(
                found.offsets, found.timestamps_ns, found.messages, kinds, strict=True
            )
            if not self.search or record[2].find(self.search, body_position(record[2])) >= 0
        ]
        for row in browsed_rows(records, self.state, self.filters, self.body_bytes_max):
            octets = orjson.dumps(row)
            self.rows.append(octets)
            self.row_bytes += len(octets)
            if self.is_full:
                return int(row["offset"]) + 1
        return found.next_offset


async def browse(
    broker: Broker,
    access: AccessControl,
    vhost: str,
    queue: str,
    start: str,
    until: str,
    state: str,
    filters: list[Any],
    limit: int,
    body_bytes: int,
    *,
    search: str = "",
) -> dict[str, object]:
    """Return a page of a queue's messages, whether ready, unacked or settled.

    Args:
        broker: Broker with the queue.
        access: Users and permissions.
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        start: Position of the first message as text; see `offset_text`.
        until: Position of the end, exclusive, as text; empty for the end of the queue.
        state: State of the wanted messages; empty for all.
        filters: Headers that wanted messages must all have: `header=value`.
        limit: Largest number of messages, 1 to `PAGE_MESSAGES_MAX`.
        body_bytes: Bytes of each body to return; `BODY_WHOLE` for all.
        search: Text that wanted bodies contain, as UTF-8; empty for all.

    Raises:
        ControlError: An argument is invalid, or the queue does not exist or cannot be read.
    """
    page = _checked(state, filters, limit, body_bytes, search)
    found = find_queue(broker, vhost, queue)
    with refused():
        rights_in(access, vhost).require(Right.READ, "queue", queue)
    try:
        at = await start_offset(found, written_place(found, start, "start"))
        end = found.visible_end
        if until:
            end = min(end, await start_offset(found, written_place(found, until, "until")))
        behind = await _collect(found, at, end, page)
    except LogFailedError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error
    return {
        "messages": [orjson.Fragment(row) for row in page.rows],
        "next": behind,
        "until": max(at, end),
        "log_start_offset": found.store.log.log_start_offset,
        "visible_end": found.visible_end,
    }


def find_queue(broker: Broker, vhost: str, name: str) -> Queue:
    """Return a queue by its name.

    Raises:
        ControlError: The virtual host or the queue does not exist.
    """
    host = broker.vhosts.get(vhost)
    if host is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    queue = host.queues.get(name)
    if queue is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"no queue '{name}' in vhost '{vhost}'")
    return queue


def parse_filters(filters: Sequence[object]) -> list[HeaderFilter]:
    """Return the filters of a request.

    Raises:
        ControlError: A filter is invalid.
    """
    try:
        return [parse_filter(str(text)) for text in filters]
    except ValueError as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, f"filters: {error}") from None


def written_place(queue: Queue, text: str, name: str) -> StartPosition:
    """Return the position in a log that a text means.

    Args:
        queue: Queue that has the log.
        text: Text that a person wrote.
        name: Name of the argument, for the error.

    Raises:
        ControlError: The text is no position.
    """
    try:
        return parse_offset_text(text, queue.store.log.time_ns())
    except ValueError as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, f"{name}: {error}") from None


def _checked(state: str, filters: list[Any], limit: int, body_bytes: int, search: str) -> _Page:
    if not 1 <= limit <= PAGE_MESSAGES_MAX:
        reason = f"queues.browse: limit is {limit}, must be 1 to {PAGE_MESSAGES_MAX}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if body_bytes < BODY_WHOLE:
        reason = f"queues.browse: body_bytes is {body_bytes}, must be {BODY_WHOLE} or more"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if state and state not in set(MessageState):
        reason = f"queues.browse: state is '{state}', must be {', '.join(MessageState)} or empty"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    body_bytes_max = None if body_bytes == BODY_WHOLE else body_bytes
    return _Page(state, parse_filters(filters), body_bytes_max, limit, [], search=search.encode())


async def _collect(queue: Queue, at: int, end: int, page: _Page) -> int:
    """Fill a page from offset `at`; return the next offset to read, `end` if there is no more."""
    deadline_seconds = time.monotonic() + PAGE_SECONDS_MAX
    is_selected = page.state or page.filters or page.search
    records_max = READ_MESSAGES if is_selected else page.limit
    while at < end and not page.is_full and time.monotonic() < deadline_seconds:
        if queue.is_deleted:
            reason = f"queue '{queue.name}' was deleted during the request"
            raise ControlError(ErrorKind.NOT_FOUND, reason)
        window_end = min(end, at + LOOK_AHEAD)
        states = queue.message_states(at, window_end)
        first = next((run.start for run in states if page.state in ("", run.state)), None)
        if first is None:
            at = window_end
            # A long range in another state must not keep the event loop busy.
            await asyncio.sleep(0)
            continue
        found = await read_page(queue, first, window_end, READ_BYTES, records_max)
        at = await asyncio.to_thread(page.add, found, states)
    return at


_ARGUMENTS: Final = {
    "vhost": str,
    "queue": str,
    "start": str,
    "until": str,
    "state": str,
    "filters": list,
    "limit": int,
    "body_bytes": int,
}


def browse_commands(broker: Broker, access: AccessControl) -> tuple[Command, ...]:
    """Return the command `queues.browse` of a server with this broker."""
    shown = ("start", "until", "state", "filters")
    audited = Audited("queue.browsed", "queue", shown, is_read=True)
    run = partial(browse, broker, access)
    return (Command("queues.browse", run, _ARGUMENTS, {"search": str}, audited=audited),)
