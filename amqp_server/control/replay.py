"""The command `queues.replay`: publishes settled messages of a queue again."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.stream import Stream
from amqp_server.broker.subscriptions.start_position import StartKind, start_offset
from amqp_server.broker.transfers.replay import Replay, ReplayRequest, ReplayStoppedError
from amqp_server.control.browse import find_queue, parse_filters, written_place
from amqp_server.control.protocol import ClientGoneError, ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.control.transfers import Transfer, TransferKind, require_transfer
from appendlog import LogFailedError
from appendlog.layout.message import encode_message

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue
    from amqp_server.control.registry import ReportProgress
    from amqp_server.control.transfers import Transfers
    from amqp_server.upkeep.alarms import Alarms

logger = logging.getLogger("amqp_server.control.replay")

SETTLED: Final = "settled"
ALL: Final = "all"
_SMALLEST: Final = encode_message(0, b"", b"", b"", b"")
REPORT_EVERY_SECONDS: Final = 0.2
"""Seconds between two progress reports; a lost client is noticed only at the next one."""


async def replay(
    broker: Broker,
    access: AccessControl,
    alarms: Alarms,
    transfers: Transfers,
    report: ReportProgress,
    vhost: str,
    queue: str,
    start: str,
    until: str,
    to: str,
    filters: list[Any],
    include: str,
    dry_run: bool,
    *,
    background: bool = False,
) -> dict[str, object]:
    """Publish messages of a queue again; return when they are on the disk.

    Args:
        broker: Broker with the queues.
        access: Users and permissions.
        alarms: Alarms that pause the replay while they are on.
        transfers: All transfers of the server.
        report: Sends the client a progress report; if that fails, the replay stops.
        vhost: Virtual host of both queues.
        queue: Queue of the messages.
        start: Position of the first message as text; see `offset_text`.
        until: Position of the end, exclusive, as text; empty for the present end.
        to: Queue to which the messages are appended; empty for the same queue.
        filters: Headers that replayed messages must all have: `header=value`.
        include: `settled`, or `all` for unsettled messages too.
        dry_run: Whether messages are only counted.
        background: Whether to return when it has begun.

    Raises:
        ControlError: An argument is invalid, a queue does not exist, or the replay had to stop.
        ClientGoneError: The client is gone; all below the last reported `next` is done.
    """
    if include not in (SETTLED, ALL):
        reason = f"queues.replay: include is '{include}', must be {SETTLED} or {ALL}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    source = find_queue(broker, vhost, queue)
    target = find_queue(broker, vhost, to) if to else source
    require_transfer(access, vhost, queue)
    chosen = parse_filters(filters)
    check_target(source, target)

    async def work(report: ReportProgress) -> dict[str, object]:
        started_seconds = time.monotonic()
        # Pin the log before the positions are looked up, so that what they refer to stays.
        with broker.retention_pins.pin(source, 0) as pin:
            try:
                await show_all(source)
                first = await kept_offset(source, start, "start")
                end = await kept_offset(source, until or "next", "until")
                request = ReplayRequest(
                    source=source,
                    target=target,
                    start=pin.move(first),
                    end=min(end, source.visible_end),
                    includes_all=include == ALL or isinstance(source, Stream),
                    filters=chosen,
                    is_dry_run=dry_run,
                )
                if first > request.end:
                    reason = f"the start, offset {first}, is above the end, {request.end}"
                    raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
                reporter = _Reporter(request, report)
                replaying = Replay(request, pin, lambda: bool(alarms.low), reporter.report)
                await _run(request, replaying)
            except LogFailedError as error:
                raise ControlError(ErrorKind.FAILED, str(error)) from error
        return {
            **_progress(request, replaying),
            "log_start_offset": source.store.log.log_start_offset,
            "seconds": round(time.monotonic() - started_seconds, 3),
        }

    transfer = Transfer(TransferKind.REPLAY, vhost, queue, target.name, not dry_run)
    return await transfers.run(transfer, work, report, in_background=background)


def check_target(source: Queue, target: Queue) -> None:
    """Check that messages can be replayed from one queue into another.

    Raises:
        ControlError: They cannot.
    """
    reason = ""
    if source is target and isinstance(source, Stream):
        reason = (
            f"queue '{source.name}' is a stream, which keeps all it has: consume it from an "
            "offset, or replay it into another queue"
        )
    elif target.is_failed:
        reason = f"the log of queue '{target.name}' cannot be written"
    elif target.refuses_when_full and not target.has_room_for([_SMALLEST]):
        reason = f"queue '{target.name}' is full and refuses more"
    if reason:
        raise ControlError(ErrorKind.FAILED, reason)


async def show_all(queue: Queue) -> None:
    """Make the messages that a durable queue has now visible: on the disk.

    Messages that ask for no disk are confirmed before they are there. They may be settled, or
    ready, and would be left out without a word.
    """
    if queue.is_journaled:
        await queue.store.make_durable()


async def kept_offset(queue: Queue, text: str, name: str) -> int:
    """Return the offset of a position; a numeric offset must be one that the queue keeps.

    Raises:
        ControlError: The text is no position, or the queue does not keep the offset.
        LogFailedError: The log cannot be read.
    """
    position = written_place(queue, text, name)
    low, high = queue.store.log.log_start_offset, queue.visible_end
    if position.kind is StartKind.OFFSET and not low <= position.number <= high:
        reason = (
            f"{name}: offset {position.number} is not kept: queue '{queue.name}' has the "
            f"offsets from {low} to {high}, {high} not included"
        )
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    return min(await start_offset(queue, position), high)


async def _run(request: ReplayRequest, work: Replay) -> None:
    """Run a replay, and log its outcome.

    Raises:
        ControlError: The replay had to stop.
        ClientGoneError: The client is gone.
        LogFailedError: The source cannot be read.
    """
    outcome = "stopped"
    try:
        await work.run()
        outcome = "done"
    except ReplayStoppedError as error:
        reason = (
            f"stopped at offset {work.next_offset}: {error}; {work.replayed} messages below it "
            f"were replayed, continue with --from {work.next_offset}"
        )
        raise ControlError(ErrorKind.FAILED, reason) from error
    except ClientGoneError:
        outcome = "stopped, its client is gone"
        raise
    finally:
        if not request.is_dry_run:
            logger.info(
                "replay %s queue=%s vhost=%s to=%s from=%d next=%d until=%d replayed=%d lost=%d",
                outcome,
                request.source.name,
                request.source.virtual_host.name,
                request.target.name,
                request.start,
                work.next_offset,
                request.end,
                work.replayed,
                work.lost,
            )


class _Reporter:
    """Sends a client the progress of a replay, at most every `REPORT_EVERY_SECONDS`."""

    def __init__(self, request: ReplayRequest, report: ReportProgress) -> None:
        self._request = request
        self._report = report
        self._reported_seconds = 0.0

    async def report(self, work: Replay) -> None:
        """Send a report if one is due."""
        now_seconds = time.monotonic()
        if now_seconds - self._reported_seconds >= REPORT_EVERY_SECONDS:
            self._reported_seconds = now_seconds
            await self._report(_progress(self._request, work))


def _progress(request: ReplayRequest, work: Replay) -> dict[str, object]:
    return {
        "start": request.start,
        "until": request.end,
        "next": work.next_offset,
        "replayed": work.replayed,
        "replayed_bytes": work.replayed_bytes,
        "passed": work.passed,
        "lost": work.lost,
        "first_offset": work.first_offset,
        "last_offset": work.last_offset,
        "is_waiting": work.is_waiting,
        "is_dry_run": request.is_dry_run,
    }


_ARGUMENTS: Final = {
    "vhost": str,
    "queue": str,
    "start": str,
    "until": str,
    "to": str,
    "filters": list,
    "include": str,
    "dry_run": bool,
}


def replay_commands(
    broker: Broker, access: AccessControl, alarms: Alarms, transfers: Transfers
) -> tuple[Command, ...]:
    """Return the command `queues.replay` of a server with these parts."""
    return (
        Command(
            "queues.replay",
            partial(replay, broker, access, alarms, transfers),
            _ARGUMENTS,
            {"background": bool},
            reports=True,
            audited=Audited(
                "queue.replayed", "queue", ("start", "until", "to", "filters", "include", "dry_run")
            ),
        ),
    )
