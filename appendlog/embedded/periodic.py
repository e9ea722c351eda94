"""Thread that does periodic work: syncs appended records, or removes old segments."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from appendlog.errors import LogError

logger: Final = logging.getLogger("appendlog.embedded.periodic")


class Periodic:
    """Calls a function at an interval until it is closed; logs its exceptions.

    Args:
        action: Function to call, in a thread of its own.
        interval_seconds: Time between the end of a call and the next one, > 0.
        name: Name of the thread.
    """

    def __init__(self, action: Callable[[], object], interval_seconds: float, name: str) -> None:
        self._action = action
        self._interval_seconds = interval_seconds
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; remaining work is up to the caller."""
        self._is_closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing.wait(self._interval_seconds):
            try:
                self._action()
            except Exception:
                # It may work the next time, and nothing else would try again.
                logger.exception("periodic work failed thread=%s", self._thread.name)


class Syncing(Protocol):
    """Writer that can be synced."""

    @property
    def needs_sync(self) -> bool:
        """Whether there is something to sync, and the sync may succeed."""

    def sync(self) -> int:
        """Write all appended records to the disk."""


def sync_all(writers: Iterable[Syncing]) -> None:
    """Sync the writers that have something to sync.

    A failed sync makes its log read-only: the next append raises the error.
    """
    for writer in writers:
        if not writer.needs_sync:
            continue
        try:
            writer.sync()
        except LogError as error:
            # No traceback here: the next append raises the same error, with a useful one.
            logger.warning("periodic sync failed error=%s", error)
        except Exception:
            # Continue with the other logs.
            logger.exception("periodic sync failed")
