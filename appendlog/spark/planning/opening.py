"""Opening a log that somebody else may be writing to."""

from pathlib import Path
from typing import Final

from appendlog.reader import LogReader

_TRIES: Final = 5


def open_reader(directory: Path) -> LogReader:
    """Open a log that a broker may be writing to.

    Retention may remove a segment between listing and opening it; then look again.
    """
    for _ in range(_TRIES):
        try:
            return LogReader(directory)
        except FileNotFoundError:
            continue
    return LogReader(directory)
