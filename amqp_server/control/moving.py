"""The command `queues.move`: ready messages of a queue go to another one."""

from __future__ import annotations

import logging
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.stream import Stream
from amqp_server.broker.transfers.move import Move, MoveRequest
from amqp_server.broker.transfers.replay import ReplayStoppedError
from amqp_server.control.browse import find_queue, parse_filters
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.control.replay import (
    REPORT_EVERY_SECONDS,
    check_target,
    kept_offset,
    show_all,
)
from amqp_server.control.transfers import Transfer, TransferKind, require_transfer
from appendlog import LogFailedError

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.control.registry import ReportProgress
    from amqp_server.control.transfers import Transfers
    from amqp_server.upkeep.alarms import Alarms

logger = logging.getLogger("amqp_server.control.moving")


async def move(
    broker: Broker,
    access: AccessControl,
    alarms: Alarms,
    transfers: Transfers,
    report: ReportProgress,
    vhost: str,
    queue: str,
    to: str,
    *,
    start: str = "first",
    until: str = "",
    filters: list[Any] | None = None,
    limit: int = 0,
    dry_run: bool = False,
    background: bool = False,
) -> dict[str, object]:
    """Move ready messages into another queue; return when they are on the disk there.

    Args:
        broker: Broker with the queues.
        access: Users and permissions.
        alarms: Alarms that pause it while they are on.
        transfers: All transfers of the server.
        report: Sends the client a progress report; if that fails, it stops.
        vhost: Virtual host of both queues.
        queue: Queue that the messages leave.
        to: Queue that gets them.
        start: Position of the first message as text; see `offset_text`.
        until: Position of the end, exclusive, as text; empty for the present end.
        filters: Headers that moved messages must all have: `header=value`.
        limit: Most messages; 0 for all.
        dry_run: Whether messages are only counted.
        background: Whether to return when it has begun.

    Raises:
        ControlError: An argument is invalid, a queue does not exist, or it had to stop.
        ClientGoneError: The client is gone; all below the last reported `next` is done.
    """
    source, target = find_queue(broker, vhost, queue), find_queue(broker, vhost, to)
    require_transfer(access, vhost, queue)
    if isinstance(source, Stream):
        reason = f"queue '{queue}' is a stream, which keeps all it has: replay it"
        raise ControlError(ErrorKind.FAILED, reason)
    if source is target:
        reason = f"queue '{queue}' is where the messages are: name another one"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if limit < 0:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, f"limit is {limit}, must be 0 or more")
    check_target(source, target)
    chosen = parse_filters(filters or [])

    async def work(report: ReportProgress) -> dict[str, object]:
        await show_all(source)
        first = await kept_offset(source, start, "start")
        end = min(await kept_offset(source, until or "next", "until"), source.visible_end)
        if first > end:
            reason = f"the start, offset {first}, is above the end, {end}"
            raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
        count_max = limit or sys.maxsize
        request = MoveRequest(source, target, first, end, count_max, chosen, dry_run)
        return await _run(request, alarms, report)

    transfer = Transfer(TransferKind.MOVE, vhost, queue, to, not dry_run)
    return await transfers.run(transfer, work, report, in_background=background)


async def _run(request: MoveRequest, alarms: Alarms, report: ReportProgress) -> dict[str, object]:
    """Move the messages, and log what came of it.

    Raises:
        ControlError: It had to stop.
    """
    started_seconds = time.monotonic()
    reported_seconds = 0.0

    async def report_sometimes(work: Move) -> None:
        nonlocal reported_seconds
        if time.monotonic() - reported_seconds >= REPORT_EVERY_SECONDS:
            reported_seconds = time.monotonic()
            await report(_progress(request, work))

    work = Move(request, lambda: bool(alarms.low), report_sometimes)
    outcome = "stopped"
    try:
        await work.run()
        outcome = "done"
    except ReplayStoppedError as error:
        await report(_progress(request, work))
        reason = (
            f"stopped at offset {work.next_offset}: {error}; {work.moved} messages were moved, "
            "the others are where they were"
        )
        raise ControlError(ErrorKind.FAILED, reason) from error
    except LogFailedError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error
    finally:
        if not request.is_dry_run:
            logger.info(
                "move %s queue=%s vhost=%s to=%s from=%d next=%d until=%d moved=%d",
                outcome,
                request.source.name,
                request.source.virtual_host.name,
                request.target.name,
                request.start,
                work.next_offset,
                request.end,
                work.moved,
            )
    return {
        **_progress(request, work),
        "seconds": round(time.monotonic() - started_seconds, 3),
    }


def _progress(request: MoveRequest, work: Move) -> dict[str, object]:
    return {
        "start": request.start,
        "until": request.end,
        "next": work.next_offset,
        "moved": work.moved,
        "moved_bytes": work.moved_bytes,
        "is_waiting": work.is_waiting,
        "is_dry_run": request.is_dry_run,
    }


_OPTIONAL: Final = {
    "start": str,
    "until": str,
    "filters": list,
    "limit": int,
    "dry_run": bool,
    "background": bool,
}


def moving_commands(
    broker: Broker, access: AccessControl, alarms: Alarms, transfers: Transfers
) -> tuple[Command, ...]:
    """Return the command `queues.move` of a server with these parts."""
    return (
        Command(
            "queues.move",
            partial(move, broker, access, alarms, transfers),
            {"vhost": str, "queue": str, "to": str},
            _OPTIONAL,
            reports=True,
            audited=Audited(
                "queue.moved", "queue", ("to", "start", "until", "filters", "limit", "dry_run")
            ),
        ),
    )
