"""The commands `events.follow` and `log.follow`: tell what happens, until their client goes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from amqp_server.admin.log_tail import LINES_MAX
from amqp_server.broker.events.follower import Follower
from amqp_server.control.protocol import ClientGoneError, ControlError, ErrorKind
from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.admin.log_tail import LogTail
    from amqp_server.broker.events.events import Events
    from amqp_server.control.registry import ReportProgress

READ_SECONDS_MAX: Final = 10.0
"""Seconds that a follower may leave a report unread; then it is cut off."""
IDLE_SECONDS: Final = 15.0
"""Seconds after which a report without content shows that the server is there."""
REPORT_LINES_MAX: Final = 128
"""Most lines in one report."""


async def follow_events(events: Events, report: ReportProgress) -> None:
    """Report each event from now on, until the client goes.

    Args:
        events: Events of the broker.
        report: Sends `events`, and `lost`: how many were dropped after them because the client
            was too slow.

    Raises:
        ClientGoneError: The client does not read.
    """
    follower = Follower()
    events.add(follower)
    try:
        await _send(report, "events", [], 0)
        await _tell(follower, report, "events")
    finally:
        events.remove(follower)


async def follow_log(tail: LogTail | None, report: ReportProgress, *, last: int = 100) -> None:
    """Report the last lines of the server's log and each one from now on.

    Args:
        tail: The last lines; None: this server keeps none.
        report: Sends `lines` and `lost`, as `follow_events`.
        last: How many earlier lines come first, 0 to 1,000.

    Raises:
        ControlError: The number is out of range, or this server keeps no lines.
        ClientGoneError: The client does not read.
    """
    if not 0 <= last <= LINES_MAX:
        reason = f"log.follow: last is {last}, must be 0 to {LINES_MAX}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if tail is None:
        raise ControlError(ErrorKind.FAILED, "log.follow: this server does not keep its log")
    loop = asyncio.get_running_loop()
    follower = Follower()

    def listen(line: bytes) -> None:
        loop.call_soon_threadsafe(follower.put, line)

    earlier = tail.begin(listen, last)
    try:
        for at in range(0, max(len(earlier), 1), REPORT_LINES_MAX):
            await _send(report, "lines", earlier[at : at + REPORT_LINES_MAX], 0)
        await _tell(follower, report, "lines")
    finally:
        tail.end(listen)


async def _tell(follower: Follower, report: ReportProgress, name: str) -> None:
    while True:
        await follower.until_some(IDLE_SECONDS)
        lines, lost = follower.take(REPORT_LINES_MAX)
        await _send(report, name, lines, lost)


async def _send(report: ReportProgress, name: str, lines: Iterable[bytes], lost: int) -> None:
    try:
        async with asyncio.timeout(READ_SECONDS_MAX):
            await report({name: [orjson.Fragment(line) for line in lines], "lost": lost})
    except TimeoutError as error:
        raise ClientGoneError("does not read") from error


def following_commands(events: Events, tail: LogTail | None) -> tuple[Command, ...]:
    """Return the commands that follow; a line from their client ends them.

    Args:
        events: Events of the broker.
        tail: The last lines of the log; None if this server keeps none.
    """
    return (
        Command("events.follow", partial(follow_events, events), follows=True),
        Command("log.follow", partial(follow_log, tail), optional={"last": int}, follows=True),
    )
