"""Work on many files at once, but never on more than a few."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

_Item = TypeVar("_Item")

CONCURRENCY: Final = 8
"""Enough for the file system to join the syncs; few enough to leave threads for others."""


async def for_each(items: Sequence[_Item], work: Callable[[_Item], Awaitable[None]]) -> None:
    """Await `work(item)` for every item, `CONCURRENCY` at a time, beginning in order.

    Raises:
        ExceptionGroup: `work` raised; the rest was cancelled.
    """
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for number in range(min(CONCURRENCY, len(items))):
            group.create_task(worker(), name=f"metadata-worker-{number}")
