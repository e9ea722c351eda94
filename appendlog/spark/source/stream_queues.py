"""Which queues a stream reads now: queues come and go while it runs."""

import re
from collections.abc import Callable
from typing import Final

from appendlog.spark.errors import NoQueueMatchesError, QueueNotFoundError
from appendlog.spark.planning.choosing import choose_queues
from appendlog.spark.planning.queues import QueueLog, find_queue, list_queues
from appendlog.spark.source.read_options import ReadOptions

DISCOVERY_SECONDS: Final = 1.0
"""Definitions are read again after this long: Spark asks for news every 10 ms."""


class StreamQueues:
    """The queues of a subscription, as of a moment ago. One thread at a time.

    Args:
        options: Where they are, and which ones.
        clock: Seconds, from any beginning, never going back.
    """

    def __init__(self, options: ReadOptions, clock: Callable[[], float]) -> None:
        self._options = options
        self._wanted = options.subscription
        self._clock = clock
        self._found: list[QueueLog] = []
        self._next_look_seconds: float | None = None

    def choose(self) -> list[QueueLog]:
        """Return the logs to begin with, by name; of a pattern there may be none yet.

        Raises:
            StorageNotFoundError: There is no data directory, or a definition is unreadable.
            QueueNotFoundError: A queue that was named does not exist.
        """
        try:
            options = self._options
            return list(
                choose_queues(
                    options.storage_path, options.vhost, self._wanted, options.store_options
                )
            )
        except NoQueueMatchesError:
            return []

    def look(self) -> list[QueueLog]:
        """Return the logs that there are, by name, as of at most `DISCOVERY_SECONDS` ago.

        Raises:
            StorageNotFoundError: There is no data directory, or a definition is unreadable.
        """
        if self._next_look_seconds is None or self._clock() >= self._next_look_seconds:
            return self.look_now()
        return self._found

    def look_now(self) -> list[QueueLog]:
        """Return the logs that there are now, by name.

        Raises:
            StorageNotFoundError: There is no data directory, or a definition is unreadable.
        """
        if self._wanted.pattern is None:
            named = (self._find(name) for name in self._wanted.names)
            self._found = [log for log in named if log is not None]
        else:
            options = self._options
            logs = list_queues(options.storage_path, options.vhost, options.store_options)
            self._found = [log for log in logs if self.is_wanted(log.queue)]
        self._next_look_seconds = self._clock() + DISCOVERY_SECONDS
        return self._found

    def is_wanted(self, queue: str) -> bool:
        """Tell whether a queue of this name is read if there is one."""
        if self._wanted.pattern is None:
            return queue in self._wanted.names
        return re.fullmatch(self._wanted.pattern, queue) is not None

    def _find(self, name: str) -> QueueLog | None:
        options = self._options
        try:
            return find_queue(options.storage_path, options.vhost, name, options.store_options)
        except QueueNotFoundError:
            return None
