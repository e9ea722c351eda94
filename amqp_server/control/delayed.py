"""The commands `exchanges.delayed` and `exchanges.cancel_delayed`: what a delayed exchange keeps.

Its messages wait in a hidden queue (`delay_queue`); no other command knows that queue.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from amqp_server.access.permissions import Right
from amqp_server.admin.views.record_view import record_view
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.subscriptions.log_pages import read_page
from amqp_server.broker.turn import TaskQueue
from amqp_server.control.command_channel import refused
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.control.requesting_user import rights_in
from appendlog import LogFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue

ROWS_MAX: Final = 1000
BODY_BYTES_MAX: Final = 4096
"""Bytes of each body that a row shows."""
PAGE_BYTES: Final = 256 * 1024
"""Bytes of messages that are read at a time."""
ALL: Final = -1
"""In the place of an offset: all messages."""


async def delayed(
    broker: Broker, access: AccessControl, vhost: str, name: str, *, limit: int = 100
) -> dict[str, object]:
    """Return how many messages a delayed exchange keeps, and those that leave it next.

    Args:
        broker: Broker with the exchange.
        access: Users and permissions.
        vhost: Virtual host of the exchange.
        name: Name of the exchange.
        limit: Most messages that are shown, 1 to `ROWS_MAX`.

    Raises:
        ControlError: An argument is invalid, the user may not read from the exchange, it is none
            that delays, or its log cannot be read.
    """
    if not 1 <= limit <= ROWS_MAX:
        reason = f"exchanges.delayed: limit is {limit}, must be 1 to {ROWS_MAX}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    queue = _delay_queue(broker, access, vhost, name, Right.READ)
    await queue.loading.until_loaded()
    soonest: list[tuple[int, int, int]] = []

    def steps() -> Iterator[None]:
        if queue.rules is not None:
            deadlines = queue.rules.attributes.deadlines
            soonest.extend((yield from deadlines.soonest_in_steps(limit, queue.settlement)))

    what = f"list of delayed messages of exchange {name!r}"
    await done_in_turns(broker.turn, TaskQueue(), steps(), what)
    now_ms = queue.store.log.time_ns() // 1_000_000
    ahead_ms = now_ms - broker.turn.clock.monotonic_ms()
    unsettled = (
        (deadline_ms + ahead_ms, offset)
        for deadline_ms, start, end in soonest
        for low, high in queue.settlement.unsettled_ranges(start, end)
        for offset in range(low, high)
    )
    places = list(islice(unsettled, limit))
    try:
        rows = await _rows(queue, places)
    except LogFailedError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error
    return {
        "messages": queue.ready_count,
        "leaving": queue.leaving_count,
        "next_at_ms": places[0][0] if places else 0,
        "now_ms": now_ms,
        "rows": rows,
    }


async def cancel_delayed(
    broker: Broker, access: AccessControl, vhost: str, name: str, offset: int
) -> dict[str, object]:
    """Drop one message of a delayed exchange, or all; return when it cannot come back.

    Args:
        broker: Broker with the exchange.
        access: Users and permissions.
        vhost: Virtual host of the exchange.
        name: Name of the exchange.
        offset: Offset of the message, as `exchanges.delayed` shows it; `ALL` for all.

    Raises:
        ControlError: The user may not configure the exchange, it is none that delays, it has no
            such message any more, or the disk failed.
    """
    queue = _delay_queue(broker, access, vhost, name, Right.CONFIGURE)
    await queue.loading.until_loaded()
    counts: list[int] = []
    if offset == ALL:

        def steps() -> Iterator[None]:
            for count in queue.purge():
                counts.append(count)
                yield

        what = f"cancelling of delayed messages of exchange {name!r}"
        await done_in_turns(broker.turn, TaskQueue(), steps(), what)
    else:
        taken = queue.ready.take_range(offset, offset + 1) if offset >= 0 else []
        if not taken:
            reason = f"exchange '{name}' keeps no message {offset}: it has left, or is cancelled"
            raise ControlError(ErrorKind.NOT_FOUND, reason)
        queue.settle(offset, offset + 1)
        queue.wake()
        counts.append(1)
    if queue.is_journaled and any(counts):
        with refused():
            await broker.make_settlement_durable(queue)
    return {"messages": sum(counts)}


def _delay_queue(
    broker: Broker, access: AccessControl, vhost: str, name: str, right: Right
) -> Queue:
    """Return the hidden queue of an exchange.

    Raises:
        ControlError: The user has not this right, or there is no such queue.
    """
    host = broker.vhosts.get(vhost)
    if host is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    exchange = host.exchanges.get(name)
    if exchange is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"no exchange '{name}' in vhost '{vhost}'")
    with refused():
        rights_in(access, vhost).require(right, "exchange", name)
    queue = host.delay_queues.get(exchange)
    if queue is None:
        reason = f"exchange '{name}' delays no messages: it is of type '{exchange.type}'"
        raise ControlError(ErrorKind.FAILED, reason)
    return queue


async def _rows(queue: Queue, places: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return what is shown of messages, in the same order; those that are gone are left out.

    Args:
        queue: Queue that has them.
        places: Time of delivery in milliseconds since 1970 UTC, and offset, of each.
    """
    shown: dict[int, dict[str, Any]] = {}
    wanted = {offset for _, offset in places}
    for offset in sorted(wanted):
        if offset in shown or offset >= queue.visible_end:
            continue
        # Neighbours mostly come with it.
        page = await read_page(queue, offset, queue.visible_end, PAGE_BYTES, ROWS_MAX)
        for at, timestamp_ns, message in zip(
            page.offsets, page.timestamps_ns, page.messages, strict=True
        ):
            if at in wanted:
                shown[at] = record_view(at, timestamp_ns, message, BODY_BYTES_MAX)
    return [
        {"delivered_at_ms": at_ms, **shown[offset]} for at_ms, offset in places if offset in shown
    ]


def delayed_commands(broker: Broker, access: AccessControl) -> tuple[Command, ...]:
    """Return the commands for the messages of delayed exchanges."""
    place = {"vhost": str, "name": str}
    return (
        Command("exchanges.delayed", partial(delayed, broker, access), place, {"limit": int}),
        Command(
            "exchanges.cancel_delayed",
            partial(cancel_delayed, broker, access),
            {**place, "offset": int},
            audited=Audited("exchange.delayed_cancelled", "name", ("offset",)),
        ),
    )
