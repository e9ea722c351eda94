"""Opening the log of a queue for reads, wherever it is."""

from typing import Final

from appendlog.reader import LogReader
from appendlog.spark.planning.queues import QueueLog

_TRIES: Final = 5


def open_reader(log: QueueLog, *, skip_damage: bool = False) -> LogReader:
    """Open a log that a broker may be writing to.

    Retention may remove a segment between listing and opening it; then look again.

    Args:
        log: Of a queue, on this machine or in an object store.
        skip_damage: As `LogReader` has it.

    Raises:
        OSError: A file cannot be read; StoreError of an object store.
        LogError: It is no log of this format.
    """
    for _ in range(_TRIES):
        try:
            return LogReader(log.directory, log.filesystem, skip_damage)
        except FileNotFoundError:
            continue
    return LogReader(log.directory, log.filesystem, skip_damage)
