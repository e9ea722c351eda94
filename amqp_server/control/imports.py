"""The commands `imports.*`: what was exported comes back into a queue, batch by batch."""

from __future__ import annotations

import difflib
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from amqp_server.control.browse import find_queue
from amqp_server.control.messages import ControlError, ErrorKind
from amqp_server.control.registry import Command
from amqp_server.imports.imports import ImportOvertakenError, ImportRefusedError
from appendlog import LogError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.queue import Queue
    from amqp_server.imports.import_state import ImportState
    from amqp_server.server import Server

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

NEAR_MAX: Final = 3
"""Names that an error suggests."""


async def begin(
    server: Server, vhost: str, queue: str, source: str, again: bool, dry_run: bool
) -> dict[str, object]:
    """Begin to import an export into a queue, or go on with it.

    Args:
        server: The server.
        vhost: Virtual host of the queue.
        queue: The queue that gets messages; durable.
        source: Names the queue that was exported, the same each time.
        again: Whether all of it is to come once more.
        dry_run: Whether it is only to be told what has come.

    Raises:
        ControlError: There is no such queue, or it cannot take messages.
    """
    target = _target(server, vhost, queue)
    if dry_run:
        state = await _done(server.imports.look(target, source))
        return _progress(state) | {"batch": "", "token": ""}
    opened = await _done(server.imports.begin(target, source, again=again))
    return _progress(opened.state) | {
        "batch": str(server.imports.batch_path(opened)),
        "token": opened.token,
        "counts_all": target.is_stream,
    }


async def append(server: Server, name: str, token: str, start: int, end: int) -> dict[str, object]:
    """Take the messages that a client has left in its file; done when they are on the disk.

    Args:
        server: The server.
        name: Of the import, as `begin` told it.
        token: Likewise.
        start: First offset of them in the exported queue.
        end: Behind the last one.

    Raises:
        ControlError: They were not taken, or not all.
    """
    if not 0 <= start < end:
        reason = f"start {start} and end {end} are no range of offsets"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    return _progress(await _done(server.imports.append(name, token, start, end)))


async def end(server: Server, name: str, token: str) -> dict[str, object]:
    """End an import.

    Args:
        server: The server.
        name: Of the import, as `begin` told it.
        token: Likewise.

    Raises:
        ControlError: It is not this client's, or the disk refused.
    """
    state = await _done(server.imports.end(name, token))
    logger.info("import done name=%s imported=%d", name, state.imported)
    return _progress(state)


def _target(server: Server, vhost: str, name: str) -> Queue:
    host = server.broker.vhosts.get(vhost)
    try:
        queue = find_queue(server, vhost, name)
    except ControlError as error:
        names = [] if host is None else sorted(host.queues)
        near = difflib.get_close_matches(name, names, NEAR_MAX, cutoff=0.4) or names[:NEAR_MAX]
        advice = f"; nearest of {len(names)}: {', '.join(near)}" if near else ""
        raise ControlError(error.kind, error.reason + advice) from error
    if not queue.is_journaled:
        reason = f"queue '{name}' is not durable: it would lose what it gets at the next restart"
        raise ControlError(ErrorKind.FAILED, reason)
    if queue.store.is_failed:
        raise ControlError(ErrorKind.FAILED, f"the log of queue '{name}' cannot be written")
    return queue


async def _done(work: Awaitable[_T]) -> _T:
    """Wait for something, and say in the words of the control socket why it was not done.

    Raises:
        ControlError: It was not.
    """
    try:
        return await work
    except ImportOvertakenError as error:
        raise ControlError(ErrorKind.IN_USE, str(error)) from error
    except (ImportRefusedError, LogError) as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error
    except OSError as error:
        reason = f"{error.filename or 'the disk'}: {error.strerror or error}"
        raise ControlError(ErrorKind.FAILED, reason) from error


def _progress(state: ImportState) -> dict[str, object]:
    return {
        "name": state.name,
        "run": state.run,
        "ranges": [list(each) for each in state.ranges],
        "partial": [list(each) for each in sorted(state.partial.items())],
        "imported": state.imported,
    }


IMPORT_COMMANDS: Final = (
    Command(
        "imports.begin",
        begin,
        {"vhost": str, "queue": str, "source": str, "again": bool, "dry_run": bool},
    ),
    Command("imports.append", append, {"name": str, "token": str, "start": int, "end": int}),
    Command("imports.end", end, {"name": str, "token": str}),
)
