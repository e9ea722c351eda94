"""Reading the redo journal: transactions that may not be in all their logs yet.

The rounds of a file are written one after the other, each only when the one before it is on the
disk. So an invalid round with nothing valid after it was never confirmed: the crash came first.
With something valid after it, it is damage: a commit may be lost, and the file is kept for the
operator.
"""

import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem
from offsets.errors import RedoFailedError, UnsupportedRedoError
from offsets.redo_round import (
    REDO_VERSION,
    decode_redo_round,
    find_redo_round,
)
from offsets.redo_transaction import RedoTransaction
from offsets.round_frame import UnknownVersionError

logger: Final = logging.getLogger("offsets.redo_reading")

_FILE_NAME: Final = re.compile(r"redo-([0-9]{20})\.log")


@dataclass(slots=True)
class RedoRecovery:
    """Result of reading the redo files.

    Attributes:
        transactions: Transactions in the order of their commits.
        files: All files read, oldest first.
        last_number: Highest file number found; 0 if there is none.
        torn_bytes: Size of a round that a crash interrupted; normal.
        damaged_files: Files in which something that was on the disk once cannot be read.
    """

    transactions: list[RedoTransaction] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    last_number: int = 0
    torn_bytes: int = 0
    damaged_files: list[Path] = field(default_factory=list)


def redo_path(directory: Path, number: int) -> Path:
    """Return the path of one redo file."""
    return directory / f"redo-{number:020}.log"


def read_redo_journal(directory: Path, filesystem: FileSystem) -> RedoRecovery:
    """Read all redo files in a directory; changes nothing.

    Args:
        directory: Directory `transactions`; may be missing, which is the same as empty.
        filesystem: File operations.

    Raises:
        RedoFailedError: A file, or the directory, cannot be read.
        UnsupportedRedoError: A file is of another version.
    """
    recovery = RedoRecovery()
    for number in _numbers(directory, filesystem):
        path = redo_path(directory, number)
        recovery.files.append(path)
        recovery.last_number = number
        try:
            descriptor = filesystem.open(path, os.O_RDONLY)
            try:
                data = filesystem.read_all(descriptor, filesystem.size(descriptor), 0)
            finally:
                filesystem.close(descriptor)
            _collect(data, number, path, recovery)
        except OSError as cause:
            raise RedoFailedError(path, cause) from cause
        except UnknownVersionError as error:
            raise UnsupportedRedoError(path, error.found, REDO_VERSION) from error
    return recovery


def _numbers(directory: Path, filesystem: FileSystem) -> list[int]:
    try:
        names = filesystem.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as cause:
        raise RedoFailedError(directory, cause) from cause
    return sorted(int(match[1]) for name in names if (match := _FILE_NAME.fullmatch(name)))


def _collect(data: bytes, file_number: int, path: Path, recovery: RedoRecovery) -> None:
    """Add the valid rounds of one file."""
    position = number = 0
    is_damaged = False
    while position < len(data):
        found = decode_redo_round(data, position)
        if found is None:
            begin = find_redo_round(data, position + 1)
            if begin < 0:
                recovery.torn_bytes += len(data) - position
                break
            is_damaged = True
            position = begin
            continue
        position = found.end
        is_damaged |= found.file_number != file_number or found.number != number
        if found.file_number == file_number:
            recovery.transactions += found.transactions
            number = found.number + 1
    if is_damaged:
        logger.error("redo file damaged path=%s", path)
        recovery.damaged_files.append(path)
