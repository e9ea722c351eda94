"""The commands that close connections, and let clients connect or not."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.broker.job import done_in_turns
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amqp_server.broker.turn import Turn
    from amqp_server.connections.open_connections import Connection, OpenConnections

logger = logging.getLogger("amqp_server.control.connections")

_REASON_BYTES_MAX = 200
"""Longest reason: a reply text has 255 bytes."""


async def close(open_connections: OpenConnections, turn: Turn, name: str, reason: str) -> int:
    """Close the connection of a name (320); return how many were closed.

    What the client has sent before is handled first.

    Args:
        open_connections: Connections of the server.
        turn: Turn of the server.
        name: Addresses of both ends: `127.0.0.1:50250 -> 127.0.0.1:5672`.
        reason: Reason that the client gets.

    Raises:
        ControlError: There is no such connection, or the reason is too long.
    """
    count = await _close(open_connections, turn, reason, lambda each: each.name == name)
    if not count:
        raise ControlError(ErrorKind.NOT_FOUND, f"no connection '{name}'")
    logger.info("connection closed name=%r reason=%r", name, reason)
    return count


async def close_user(open_connections: OpenConnections, turn: Turn, user: str, reason: str) -> int:
    """Close all connections of a user (320); return how many were closed.

    Raises:
        ControlError: The reason is too long.
    """
    count = await _close(open_connections, turn, reason, lambda each: each.user == user)
    logger.info("connections closed user=%r count=%d reason=%r", user, count, reason)
    return count


def _check(reason: str) -> None:
    """Refuse a reason that is too long for AMQP."""
    if len(reason.encode("utf-8", "surrogatepass")) > _REASON_BYTES_MAX:
        text = f"the reason has more than {_REASON_BYTES_MAX} bytes"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, text)


async def _close(
    open_connections: OpenConnections,
    turn: Turn,
    reason: str,
    is_wanted: Callable[[Connection], bool],
) -> int:
    _check(reason)
    closed: list[Connection] = []

    def steps() -> Iterator[None]:
        for connection in open_connections:
            if is_wanted(connection):
                closed.append(connection)
                yield from connection.force_close(reason)
            yield

    await done_in_turns(turn, turn.upkeep, steps(), "close of connections by a command")
    return len(closed)


async def suspend(open_connections: OpenConnections, turn: Turn, reason: str) -> int:
    """Close all connections (320), and admit none until `resume`; return how many were closed.

    Raises:
        ControlError: The reason is too long.
    """
    _check(reason)
    count = len(open_connections)
    steps = open_connections.suspend(reason)
    await done_in_turns(turn, turn.upkeep, steps, "suspension of clients by a command")
    logger.warning("clients suspended reason=%r count=%d", reason, count)
    return count


async def resume(open_connections: OpenConnections) -> None:
    """Let clients connect again."""
    open_connections.is_suspended = False
    open_connections.are_listeners_suspended = False
    logger.info("clients resumed")


async def suspend_listeners(open_connections: OpenConnections, turn: Turn, reason: str) -> int:
    """Admit no connections until `resume_listeners`; return how many were closed.

    Args:
        open_connections: Connections of the server.
        turn: Has the time for it.
        reason: Closes the open connections too, and is what their clients are told; empty: they
            stay.

    Raises:
        ControlError: The reason is too long.
    """
    _check(reason)
    open_connections.are_listeners_suspended = True
    logger.warning("listeners suspended reason=%r", reason)
    return await _close(open_connections, turn, reason, lambda _: True) if reason else 0


async def resume_listeners(open_connections: OpenConnections) -> None:
    """Let clients connect again after `suspend_listeners`."""
    open_connections.are_listeners_suspended = False
    logger.info("listeners resumed")


def connection_commands(open_connections: OpenConnections, turn: Turn) -> tuple[Command, ...]:
    """Return the commands that close connections of a server with these parts."""
    return (
        Command(
            "clients.suspend",
            partial(suspend, open_connections, turn),
            {"reason": str},
            audited=Audited("clients.suspended", details=("reason",)),
        ),
        Command(
            "clients.resume",
            partial(resume, open_connections),
            audited=Audited("clients.resumed"),
        ),
        Command(
            "listeners.suspend",
            partial(suspend_listeners, open_connections, turn),
            {"reason": str},
            audited=Audited("listeners.suspended", details=("reason",)),
        ),
        Command(
            "listeners.resume",
            partial(resume_listeners, open_connections),
            audited=Audited("listeners.resumed"),
        ),
        Command(
            "connections.close",
            partial(close, open_connections, turn),
            {"name": str, "reason": str},
            audited=Audited("connection.closed.by.command", name="name", details=("reason",)),
        ),
        Command(
            "connections.close_user",
            partial(close_user, open_connections, turn),
            {"user": str, "reason": str},
            audited=Audited("connections.closed.by.command", name="user", details=("reason",)),
        ),
    )
