"""Finds the queues that a stream reads; queues may appear and disappear while it runs."""

import re
from collections.abc import Callable
from typing import Final

from appendlog.spark.errors import NoQueueMatchesError, QueueNotFoundError
from appendlog.spark.planning.choosing import choose_queues
from appendlog.spark.planning.queues import QueueLog, find_queue, list_queues
from appendlog.spark.source.read_options import ReadOptions

DISCOVERY_SECONDS: Final = 1.0
"""Least seconds between two reads of the definitions: Spark asks every 10 ms."""


class StreamQueues:
    """Queues of a subscription, read again now and then; not thread-safe.

    Args:
        options: Data directory and subscription.
        clock: Returns seconds since any moment; never goes back.
    """

    def __init__(self, options: ReadOptions, clock: Callable[[], float]) -> None:
        self._options = options
        self._wanted = options.subscription
        self._clock = clock
        self._found: list[QueueLog] = []
        self._next_look_seconds: float | None = None

    def choose(self) -> list[QueueLog]:
        """Return the logs at the start of a stream, by name; a pattern may match none yet.

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

    def logs(self) -> list[QueueLog]:
        """Return the logs by name; the answer may be `DISCOVERY_SECONDS` old.

        Raises:
            StorageNotFoundError: There is no data directory, or a definition is unreadable.
        """
        if self._next_look_seconds is None or self._clock() >= self._next_look_seconds:
            return self.list_now()
        return self._found

    def list_now(self) -> list[QueueLog]:
        """Return the present logs, by name.

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
        """Return whether the subscription has a queue of this name."""
        if self._wanted.pattern is None:
            return queue in self._wanted.names
        return re.fullmatch(self._wanted.pattern, queue) is not None

    def _find(self, name: str) -> QueueLog | None:
        options = self._options
        try:
            return find_queue(options.storage_path, options.vhost, name, options.store_options)
        except QueueNotFoundError:
            return None
