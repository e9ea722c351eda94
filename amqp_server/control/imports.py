"""The commands `imports.*`: import exported messages into a queue, batch by batch."""

from __future__ import annotations

import difflib
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from amqp_server.admin.imports.imports import ImportOvertakenError, ImportRefusedError
from amqp_server.control.browse import find_queue
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from appendlog import LogError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.admin.imports.import_state import ImportState
    from amqp_server.admin.imports.imports import Imports
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue

logger = logging.getLogger("amqp_server.control.imports")

_T = TypeVar("_T")

NEAR_MAX: Final = 3
"""Names of queues that an error suggests."""


async def begin(
    broker: Broker,
    imports: Imports,
    vhost: str,
    queue: str,
    source: str,
    again: bool,
    dry_run: bool,
    may_drop: bool = True,
) -> dict[str, object]:
    """Begin to import an export into a queue, or continue it.

    Args:
        broker: Broker with the queue.
        imports: All imports of the server.
        vhost: Virtual host of the queue.
        queue: Name of the queue that gets the messages; must be durable.
        source: Name of the exported queue; must be the same for every import of it.
        again: Whether to import everything once more.
        dry_run: Whether only to return what has been imported.
        may_drop: Whether a queue with a length limit may drop its oldest messages for these; if
            not, it takes what it has room for and refuses the rest.

    Raises:
        ControlError: The queue does not exist, or cannot take messages.
    """
    target = _target(broker, vhost, queue)
    if dry_run:
        state = await _done(imports.look(target, source))
        return _progress(state) | {"batch": "", "token": ""}
    opened = await _done(imports.begin(target, source, again=again, may_drop=may_drop))
    return _progress(opened.state) | {
        "batch": str(imports.batch_path(opened)),
        "token": opened.token,
        "counts_all": target.makes_persistent,
    }


async def append(
    imports: Imports, name: str, token: str, start: int, end: int
) -> dict[str, object]:
    """Import the messages in the client's file; return when they are on the disk.

    Args:
        imports: All imports of the server.
        name: Name of the import, from the reply of `begin`.
        token: Token of the import, from the reply of `begin`.
        start: Offset of the first message in the exported queue.
        end: Offset after the last message, exclusive.

    Raises:
        ControlError: The batch was refused, or only a part of it was imported.
    """
    if not 0 <= start < end:
        reason = f"start {start} and end {end} are not a range of offsets"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    return _progress(await _done(imports.append(name, token, start, end)))


async def end(imports: Imports, name: str, token: str) -> dict[str, object]:
    """End an import.

    Args:
        imports: All imports of the server.
        name: Name of the import, from the reply of `begin`.
        token: Token of the import, from the reply of `begin`.

    Raises:
        ControlError: The import is another client's, or the disk refused the write.
    """
    state = await _done(imports.end(name, token))
    logger.info("import done name=%s imported=%d", name, state.imported)
    return _progress(state)


def _target(broker: Broker, vhost: str, name: str) -> Queue:
    host = broker.vhosts.get(vhost)
    try:
        queue = find_queue(broker, vhost, name)
    except ControlError as error:
        names = [] if host is None else sorted(host.queues)
        near = difflib.get_close_matches(name, names, NEAR_MAX, cutoff=0.4) or names[:NEAR_MAX]
        advice = f"; nearest of {len(names)}: {', '.join(near)}" if near else ""
        raise ControlError(error.kind, error.reason + advice) from error
    if not queue.is_journaled:
        reason = f"queue '{name}' is not durable: it would lose what it gets at the next restart"
        raise ControlError(ErrorKind.FAILED, reason)
    if queue.is_failed:
        raise ControlError(ErrorKind.FAILED, f"the log of queue '{name}' cannot be written")
    return queue


async def _done(work: Awaitable[_T]) -> _T:
    """Wait for an operation, and convert its errors to those of the control socket.

    Raises:
        ControlError: The operation failed.
    """
    try:
        return await work
    except ImportOvertakenError as error:
        raise ControlError(ErrorKind.IN_USE, str(error)) from error
    except ImportRefusedError as error:
        details = None if error.taken is None else {"taken": error.taken}
        raise ControlError(ErrorKind.FAILED, str(error), details) from error
    except LogError as error:
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


def import_commands(broker: Broker, imports: Imports) -> tuple[Command, ...]:
    """Return the commands `imports.*` of a server with these parts."""
    return (
        Command(
            "imports.begin",
            partial(begin, broker, imports),
            {"vhost": str, "queue": str, "source": str, "again": bool, "dry_run": bool},
            {"may_drop": bool},
            audited=Audited("import.started", "queue", ("source", "again", "dry_run")),
        ),
        Command(
            "imports.append",
            partial(append, imports),
            {"name": str, "token": str, "start": int, "end": int},
        ),
        Command(
            "imports.end",
            partial(end, imports),
            {"name": str, "token": str},
            audited=Audited("import.finished", "name"),
        ),
    )
