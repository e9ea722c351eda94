"""The command `audit.list`: returns who changed what, the newest first, a page at a time."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.audit.paging import BadPlaceError, read_page
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command

if TYPE_CHECKING:
    from pathlib import Path

PAGE_EVENTS_MAX: Final = 1000
"""Events in one answer; for more, pass its `next` as `before`."""
NAMES_MAX: Final = 32
"""Names of events that one request may ask for."""


async def list_events(
    storage_path: Path,
    *,
    before: str = "",
    limit: int = 100,
    events: list[Any] | None = None,
    user: str = "",
    vhost: str = "",
) -> dict[str, object]:
    """Return events of the audit log, the newest first.

    Args:
        storage_path: Data directory.
        before: `next` of the page before; empty for the first page.
        limit: Most events, 1 to `PAGE_EVENTS_MAX`.
        events: Names of events, or patterns such as `queue.*`; none for all.
        user: Only what this user did; empty for all.
        vhost: Only in this virtual host; empty for all.

    Raises:
        ControlError: An argument is not valid, or the files cannot be read.
    """
    names = [str(each) for each in events or ()]
    if not 1 <= limit <= PAGE_EVENTS_MAX:
        reason = f"audit.list: limit is {limit}, must be 1 to {PAGE_EVENTS_MAX}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if len(names) > NAMES_MAX or any(len(name) > 255 for name in names):
        reason = f"audit.list: events are more than {NAMES_MAX}, or longer than 255 characters"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    try:
        page = await asyncio.to_thread(read_page, storage_path, before, limit, names, user, vhost)
    except BadPlaceError:
        reason = "audit.list: 'before' is not what an answer gave as 'next'"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason) from None
    except OSError as error:
        reason = f"{error.filename}: {error.strerror or error}"
        raise ControlError(ErrorKind.FAILED, reason) from error
    return {"events": page.events, "next": page.next}


def audit_commands(storage_path: Path) -> tuple[Command, ...]:
    """Return the command that shows the audit log of a data directory."""
    page = {"before": str, "limit": int, "events": list, "user": str, "vhost": str}
    return (Command("audit.list", partial(list_events, storage_path), optional=page),)
