"""A thread that does something every so often: sync what was appended, remove what is too old."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from appendlog.errors import LogError

logger: Final = logging.getLogger(__name__)


class Periodic:
    """Calls something at an interval, until it is closed. An exception in it is logged.

    Args:
        action: What to call, in a thread of its own.
        interval_seconds: Between the end of one call and the next, > 0.
        name: Of the thread.
    """

    def __init__(self, action: Callable[[], object], interval_seconds: float, name: str) -> None:
        self._action = action
        self._interval_seconds = interval_seconds
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what it has not done yet is the caller's."""
        self._is_closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing.wait(self._interval_seconds):
            try:
                self._action()
            except Exception:
                # What failed now may work next time, and nobody else would try.
                logger.exception("periodic work failed thread=%s", self._thread.name)


class Syncing(Protocol):
    """What can be synced."""

    @property
    def needs_sync(self) -> bool:
        """Whether there is something to sync, and that may succeed."""

    def sync(self) -> int:
        """Put all that was appended on the disk."""


def sync_all(writers: Iterable[Syncing]) -> None:
    """Sync those that have something to sync.

    A sync that fails makes its log read-only: the next append raises why.
    """
    for writer in writers:
        if not writer.needs_sync:
            continue
        try:
            writer.sync()
        except LogError as error:
            # Nobody's stack but the appender's is of use, and it gets the same error.
            logger.warning("periodic sync failed error=%s", error)
        except Exception:
            # The other logs are synced all the same.
            logger.exception("periodic sync failed")
