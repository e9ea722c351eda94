"""A thread that puts what was appended on the disk every so often."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from appendlog.errors import LogError

logger: Final = logging.getLogger(__name__)


class Syncing(Protocol):
    """What can be synced."""

    @property
    def needs_sync(self) -> bool:
        """Whether there is something to sync, and that may succeed."""

    def sync(self) -> int:
        """Put all that was appended on the disk."""


class PeriodicSync:
    """Syncs writers that have something to sync, until it is closed.

    A sync that fails makes its log read-only: the next append raises why.

    Args:
        writers: Called each time for those that there are.
        interval_seconds: Between two rounds, > 0.
    """

    def __init__(self, writers: Callable[[], Iterable[Syncing]], interval_seconds: float) -> None:
        """Start the thread."""
        self._writers = writers
        self._interval_seconds = interval_seconds
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-sync", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what is not synced yet is the caller's."""
        self._is_closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing.wait(self._interval_seconds):
            for writer in self._writers():
                if not writer.needs_sync:
                    continue
                try:
                    writer.sync()
                except LogError as error:
                    # Nobody's stack but the appender's is of use, and it gets the same error.
                    logger.warning("periodic sync failed error=%s", error)
