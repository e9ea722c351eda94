"""Opens the log of a queue for reads, on this machine or in an object store."""

from typing import Final

from appendlog.reader import LogReader
from appendlog.spark.planning.queues import QueueLog

_TRIES: Final = 5


def open_reader(log: QueueLog, *, skip_damage: bool = False) -> LogReader:
    """Open a log that a broker may be writing to.

    Retention may remove a segment between its listing and its opening; then this lists again.

    Args:
        log: Log of a queue.
        skip_damage: Whether reads skip damage; see `LogReader`.

    Raises:
        OSError: A file cannot be read; for an object store a StoreError.
        LogError: The files are no log of this format.
    """
    for _ in range(_TRIES):
        try:
            return LogReader(log.directory, log.filesystem, skip_damage)
        except FileNotFoundError:
            continue
    return LogReader(log.directory, log.filesystem, skip_damage)
