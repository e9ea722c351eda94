"""The commands `queues.unacked` and `queues.groups`: the owners of a queue's unacked messages."""

from __future__ import annotations

import asyncio
import heapq
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqp_server.admin.views.values import text_json
from amqp_server.broker.events.channel_events import channel_name
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.subscriptions.subscription import Subscription
from amqp_server.broker.turn import TaskQueue
from amqp_server.control.browse import find_queue
from amqp_server.control.offset_rows import Row, group_row
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.source import Source
    from amqp_server.broker.consuming.unacked import UnackedRun
    from amqp_server.broker.queue import Queue
    from amqp_server.connections.open_connections import Connection, OpenConnections

ROWS_MAX: Final = 1000
"""Rows in one answer; for more, pass its `next` as `after`."""
STEP_RUNS: Final = 256
"""Runs of deliveries, or connections, that one step looks at."""


class _Place(NamedTuple):
    """A delivery: name of its connection, number of its channel, and its tag."""

    connection: str
    channel: int
    tag: int


_BEGIN: Final = _Place("", 0, 0)


async def unacked(
    broker: Broker,
    connections: OpenConnections,
    vhost: str,
    queue: str,
    *,
    after: str = "",
    limit: int = 100,
) -> dict[str, object]:
    """Return which deliveries of a queue are not acknowledged, by connection, channel and tag.

    Args:
        broker: Broker with the queue.
        connections: The open connections.
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        after: `next` of the page before; empty for the first page.
        limit: Most rows, 1 to `ROWS_MAX`. A row is a run: deliveries with consecutive tags and
            offsets that one consumer has.

    Raises:
        ControlError: An argument is not valid, or the queue does not exist.
    """
    _check_limit("queues.unacked", limit)
    place = _place_from(after)
    found = find_queue(broker, vhost, queue)
    holders = await asyncio.to_thread(_holders, connections, vhost, place.connection)
    rows: list[dict[str, Any]] = []
    ends: list[_Place] = []
    steps = _collect(found, holders, place, limit, rows, ends)
    await done_in_turns(broker.turn, TaskQueue(), steps, f"unacked of queue {queue!r}")
    return {
        "unacked": found.unacked_count,
        "rows": rows,
        "next": _place_text(ends[0]) if ends else "",
    }


async def groups(
    broker: Broker, vhost: str, queue: str, *, after: str = "", limit: int = 100
) -> dict[str, object]:
    """Return the consumer groups of a stream by name; another queue has none.

    Args:
        broker: Broker with the queue.
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        after: `next` of the page before; empty for the first page.
        limit: Most groups, 1 to `ROWS_MAX`.

    Raises:
        ControlError: An argument is not valid, or the queue does not exist.
    """
    _check_limit("queues.groups", limit)
    found = find_queue(broker, vhost, queue)
    names = () if found.groups is None else (each.name for each in found.groups)
    page = heapq.nsmallest(limit + 1, (name for name in names if name > after))
    rows: list[Row] = []
    time_slice = broker.turn.new_slice()
    for name in page[:limit]:
        if not found.is_deleted:
            rows.append(group_row(found, None, name))
        await time_slice.yield_if_due()
    return {"groups": rows, "next": page[limit - 1] if len(page) > limit else ""}


def _holders(connections: OpenConnections, vhost: str, begin: str) -> list[Connection]:
    """Return the connections of a virtual host from a name on, by name. Runs in a worker."""
    found = [each for each in connections if each.vhost == vhost and each.name >= begin]
    return sorted(found, key=lambda each: each.name)


def _collect(
    queue: Queue,
    holders: list[Connection],
    place: _Place,
    limit: int,
    rows: list[dict[str, Any]],
    ends: list[_Place],
) -> Iterator[None]:
    """Fill `rows`; put the place of the next one into `ends` if there are more."""
    for count, connection in enumerate(holders, 1):
        for channel in sorted(connection.channels, key=lambda each: each.number):
            if not channel.unacked.count:
                continue
            tag = 0
            if connection.name == place.connection:
                if channel.number < place.channel:
                    continue
                tag = place.tag if channel.number == place.channel else 0
            while runs := channel.unacked.some_from(tag):
                for at, run in enumerate(runs, 1):
                    tag = run.end_tag
                    if _is_of(run.source, queue):
                        if len(rows) == limit:
                            ends.append(_Place(connection.name, channel.number, run.first_tag))
                            return
                        rows.append(_row(channel, run))
                    if at % STEP_RUNS == 0:
                        break
                yield
        if count % STEP_RUNS == 0:
            yield


def _is_of(source: Source, queue: Queue) -> bool:
    if isinstance(source, Subscription):
        return source.is_counted and source.queue is queue
    return source is queue


def _row(channel: Channel, run: UnackedRun) -> dict[str, Any]:
    return {
        **text_json("channel_name", channel_name(channel)),
        **text_json("user", channel.client.user),
        **text_json("consumer_tag", "" if run.consumer is None else run.consumer.tag),
        "delivery_tag": run.first_tag,
        "count": run.count,
        "first_offset": run.first_offset,
        "end_offset": run.end_offset,
        "unacked_for_seconds": round(channel.age_seconds(run.first_tag), 3),
    }


def _check_limit(command: str, limit: int) -> None:
    if not 1 <= limit <= ROWS_MAX:
        reason = f"{command}: limit is {limit}, must be 1 to {ROWS_MAX}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)


def _place_text(place: _Place) -> str:
    name = place.connection.encode("utf-8", "surrogateescape")
    return f"{place.channel}.{place.tag}.{name.hex()}"


def _place_from(text: str) -> _Place:
    if not text:
        return _BEGIN
    try:
        channel, tag, name = text.split(".")
        connection = bytes.fromhex(name).decode("utf-8", "surrogateescape")
        return _Place(connection, int(channel), int(tag))
    except ValueError:
        reason = "queues.unacked: 'after' is not what an answer gave as 'next'"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason) from None


def unacked_commands(broker: Broker, connections: OpenConnections) -> tuple[Command, ...]:
    """Return the commands that show who has messages, of a server with these parts."""
    place = {"vhost": str, "queue": str}
    page = {"after": str, "limit": int}
    return (
        Command("queues.unacked", partial(unacked, broker, connections), place, page),
        Command("queues.groups", partial(groups, broker), place, page),
    )
