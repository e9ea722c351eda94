"""Stores whose logs failed because space or open files ran out; the broker retries them."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from appendlog.files.open_files import is_for_want_of_files

if TYPE_CHECKING:
    from amqp_server.broker.storing.message_store import MessageStore

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
PAUSE_MAX: Final = 32
"""Largest pause between two attempts on one store, in checks of the disk."""


class FailedStores:
    """Stores that failed, and the time when the broker retries each. The event loop owns it.

    The broker retries a store only if its log failed because the disk was full or too many files
    were open. After any other disk error it is unknown which pages the kernel has dropped, and
    reading them back from its cache proves nothing.
    """

    def __init__(self) -> None:
        self._pauses: dict[MessageStore, tuple[int, int]] = {}

    def add(self, store: MessageStore) -> None:
        """Remember a store that has failed, if it may be retried."""
        if store.failure is not None and is_temporary(store.failure.cause):
            self._pauses.setdefault(store, (1, 1))

    def discard(self, store: MessageStore) -> None:
        """Forget a store: it works again, or its queue is deleted."""
        self._pauses.pop(store, None)

    def retry(self) -> None:
        """Retry the stores whose pause is over. The caller has checked that the disk has space."""
        for store, (left, pause) in list(self._pauses.items()):
            if left > 1:
                self._pauses[store] = (left - 1, pause)
            else:
                longer = min(2 * pause, PAUSE_MAX)
                self._pauses[store] = (longer, longer)
                store.reopen()


def is_temporary(cause: Exception) -> bool:
    """Return whether the cause is temporary and left nothing half written."""
    return is_disk_full(cause) or is_for_want_of_files(cause)


def is_disk_full(cause: Exception) -> bool:
    """Return whether a file operation failed because the disk or a quota is full."""
    return isinstance(cause, OSError) and cause.errno in _NO_ROOM
