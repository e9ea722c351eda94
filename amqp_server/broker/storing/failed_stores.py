"""Stores whose logs have failed for want of room, or of files: taken into use again later."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from appendlog.files.open_files import is_for_want_of_files

if TYPE_CHECKING:
    from amqp_server.broker.storing.message_store import MessageStore

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
PAUSE_MAX: Final = 32
"""Looks at the disk that may pass between two tries of one store."""


class FailedStores:
    """Which stores have failed, and when each is tried again. The event loop owns it.

    Only what failed for want of room is tried, or because no more files could be open: of a disk
    that fails otherwise nobody knows which pages the kernel has given up, and reading them back
    from its cache proves nothing.
    """

    def __init__(self) -> None:
        self._pauses: dict[MessageStore, tuple[int, int]] = {}

    def add(self, store: MessageStore) -> None:
        """Take note of a store that has failed."""
        if store.failure is not None and passes(store.failure.cause):
            self._pauses.setdefault(store, (1, 1))

    def discard(self, store: MessageStore) -> None:
        """Forget a store: it works again, or its queue is deleted."""
        self._pauses.pop(store, None)

    def retry(self) -> None:
        """Try those whose pause is over: somebody has looked, and there is room."""
        for store, (left, pause) in list(self._pauses.items()):
            if left > 1:
                self._pauses[store] = (left - 1, pause)
            else:
                longer = min(2 * pause, PAUSE_MAX)
                self._pauses[store] = (longer, longer)
                store.reopen()


def passes(cause: Exception) -> bool:
    """Tell whether what made a file operation fail goes by, and nothing was half done by it."""
    return is_for_want_of_room(cause) or is_for_want_of_files(cause)


def is_for_want_of_room(cause: Exception) -> bool:
    """Tell whether a file operation failed because the disk, or a quota, is full."""
    return isinstance(cause, OSError) and cause.errno in _NO_ROOM
