"""The command `queues.return_dead_letters`: dead letters go back to the queues they came from."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.values import text_json
from amqp_server.broker.stream import Stream
from amqp_server.broker.transfers.replay import ReplayStoppedError
from amqp_server.broker.transfers.returning import Return, ReturnRequest
from amqp_server.control.browse import find_queue, parse_filters
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.control.replay import REPORT_EVERY_SECONDS, kept_offset, show_all
from amqp_server.control.transfers import Transfer, TransferKind, require_transfer
from appendlog import LogFailedError

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.control.registry import ReportProgress
    from amqp_server.control.transfers import Transfers
    from amqp_server.upkeep.alarms import Alarms

logger = logging.getLogger("amqp_server.control.returning")


async def return_dead_letters(
    broker: Broker,
    access: AccessControl,
    alarms: Alarms,
    transfers: Transfers,
    report: ReportProgress,
    vhost: str,
    queue: str,
    start: str,
    until: str,
    filters: list[Any],
    dry_run: bool,
    *,
    background: bool = False,
) -> dict[str, object]:
    """Return ready dead letters; return when they are on the disk where they came from.

    Args:
        broker: Broker with the queues.
        access: Users and permissions.
        alarms: Alarms that pause it while they are on.
        transfers: All transfers of the server.
        report: Sends the client a progress report; if that fails, it stops.
        vhost: Virtual host of the queues.
        queue: Queue that has the dead letters.
        start: Position of the first message as text; see `offset_text`.
        until: Position of the end, exclusive, as text; empty for the present end.
        filters: Headers that returned messages must all have: `header=value`.
        dry_run: Whether messages are only counted.
        background: Whether to return when it has begun.

    Raises:
        ControlError: An argument is invalid, the queue does not exist, or it had to stop.
        ClientGoneError: The client is gone; all below the last reported `next` is done.
    """
    source = find_queue(broker, vhost, queue)
    require_transfer(access, vhost, queue)
    if isinstance(source, Stream):
        reason = f"queue '{queue}' is a stream, which keeps all it has: replay it"
        raise ControlError(ErrorKind.FAILED, reason)
    chosen = parse_filters(filters)

    async def work(report: ReportProgress) -> dict[str, object]:
        started_seconds = time.monotonic()
        reported_seconds = 0.0
        try:
            await show_all(source)
            first = await kept_offset(source, start, "start")
            end = min(await kept_offset(source, until or "next", "until"), source.visible_end)
            if first > end:
                reason = f"the start, offset {first}, is above the end, {end}"
                raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
            queues = broker.vhosts[vhost].queues
            request = ReturnRequest(source, queues, first, end, chosen, dry_run)

            async def report_sometimes(returning: Return) -> None:
                nonlocal reported_seconds
                if time.monotonic() - reported_seconds >= REPORT_EVERY_SECONDS:
                    reported_seconds = time.monotonic()
                    await report(_progress(request, returning))

            returning = Return(request, lambda: bool(alarms.low), report_sometimes)
            await _run(request, returning)
        except LogFailedError as error:
            raise ControlError(ErrorKind.FAILED, str(error)) from error
        seconds = round(time.monotonic() - started_seconds, 3)
        return {**_progress(request, returning), "seconds": seconds}

    transfer = Transfer(TransferKind.RETURN, vhost, queue, is_listed=not dry_run)
    return await transfers.run(transfer, work, report, in_background=background)


async def _run(request: ReturnRequest, work: Return) -> None:
    """Return the dead letters, and log what came of it.

    Raises:
        ControlError: It had to stop.
        LogFailedError: The queue cannot be read.
    """
    outcome = "stopped"
    try:
        await work.run()
        outcome = "done"
    except ReplayStoppedError as error:
        reason = f"stopped at offset {work.next_offset}: {error}; all below it is done"
        raise ControlError(ErrorKind.FAILED, reason) from error
    finally:
        if not request.is_dry_run:
            logger.info(
                "return of dead letters %s queue=%s vhost=%s from=%d next=%d until=%d returned=%d "
                "left=%d",
                outcome,
                request.source.name,
                request.source.virtual_host.name,
                request.start,
                work.next_offset,
                request.end,
                work.returned.total(),
                work.left.total(),
            )


def _progress(request: ReturnRequest, work: Return) -> dict[str, object]:
    return {
        "start": request.start,
        "until": request.end,
        "next": work.next_offset,
        "returned": work.returned.total(),
        "returned_bytes": work.returned_bytes,
        "queues": [
            {**text_json("queue", name), "returned": count}
            for name, count in work.returned.most_common(QUEUES_SHOWN_MAX)
        ],
        "left": {str(reason): count for reason, count in work.left.items()},
        "is_waiting": work.is_waiting,
        "is_dry_run": request.is_dry_run,
    }


QUEUES_SHOWN_MAX: Final = 100
"""Queues that a report names, those with the most messages first."""
_ARGUMENTS: Final = {
    "vhost": str,
    "queue": str,
    "start": str,
    "until": str,
    "filters": list,
    "dry_run": bool,
}


def returning_commands(
    broker: Broker, access: AccessControl, alarms: Alarms, transfers: Transfers
) -> tuple[Command, ...]:
    """Return the command `queues.return_dead_letters` of a server with these parts."""
    return (
        Command(
            "queues.return_dead_letters",
            partial(return_dead_letters, broker, access, alarms, transfers),
            _ARGUMENTS,
            {"background": bool},
            reports=True,
            audited=Audited(
                "queue.dead_letters_returned", "queue", ("start", "until", "filters", "dry_run")
            ),
        ),
    )
