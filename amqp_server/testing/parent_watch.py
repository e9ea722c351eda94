"""Notices the end of the process that started this one.

A test run that is killed cannot stop the broker that it has started.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from typing import Final

LOOK_SECONDS: Final = 0.25
"""Seconds between two looks at the parent's process id."""


async def end_of_parent(parent: int) -> None:
    """Return when the parent process has ended, or has closed our standard input.

    Only a pipe or socket counts as standard input: `/dev/null` is at its end from the beginning,
    and a terminal belongs to the user.

    Args:
        parent: `os.getppid()` when this process began: the parent may end before the server runs.
    """
    closed = asyncio.Event()
    transport = await _watch_input(closed)
    try:
        while os.getppid() == parent and not closed.is_set():
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await closed.wait()
            except TimeoutError:
                continue
    finally:
        if transport is not None:
            transport.close()


class _Input(asyncio.Protocol):
    """Drops what it reads, and sets an event at the end.

    Args:
        closed: The event.
    """

    def __init__(self, closed: asyncio.Event) -> None:
        self._closed = closed

    def connection_lost(self, exc: Exception | None) -> None:
        """Set the event: the other end is closed."""
        self._closed.set()


async def _watch_input(closed: asyncio.Event) -> asyncio.BaseTransport | None:
    if sys.stdin is None:  # it was closed before the start
        return None
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return None
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: _Input(closed), sys.stdin)
    return transport
