"""One poll of the change feed, on behalf of one reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Poll:
    """One poll; a slow reader's may go on while others begin.

    Args:
        generation: Number of this poll; that of a later one is greater.
        since: Number of the poll whose result the reader knows; 0: it knows nothing.
        latest: Returns the number of the latest poll that has begun.
    """

    __slots__ = ("_latest", "generation", "since")

    def __init__(self, generation: int, since: int, latest: Callable[[], int]) -> None:
        self.generation = generation
        self.since = since
        self._latest = latest

    @property
    def found_in(self) -> int:
        """Generation of a change that this poll finds now.

        A later poll may have passed the object before it changed. Its reader has to get the change
        with its next poll, so the change counts as one after the later poll.
        """
        latest = self._latest()
        return latest if latest == self.generation else latest + 1
