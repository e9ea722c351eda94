"""Transactions for the redo journal, and the short way to write and read them."""

from pathlib import Path
from uuid import UUID

from appendlog.files.filesystem import FileSystem
from offsets.redo_journal import RedoJournal
from offsets.redo_reading import read_redo_journal
from offsets.redo_transaction import RedoSettled, RedoTarget, RedoTransaction

QUEUES = [UUID(int=number << 64) for number in range(1, 4)]


def transaction(number: int, message_count: int = 3) -> RedoTransaction:
    """Return a transaction that tells its number."""
    return RedoTransaction(
        number.to_bytes(16, "big"),
        [b"message %d.%d" % (number, index) for index in range(message_count)],
        [
            RedoTarget(QUEUES[0], number * 10, [(0, message_count)]),
            RedoTarget(QUEUES[1], number, [(0, 1), (2, 3)]),
        ],
        [RedoSettled(QUEUES[2], [(number, number + 2), (number + 5, number + 6)])],
    )


def transactions(start: int, end: int) -> list[RedoTransaction]:
    """Return the transactions of a range."""
    return [transaction(number) for number in range(start, end)]


def open_journal(directory: Path, filesystem: FileSystem | None = None) -> RedoJournal:
    """Open a journal on the real disk."""
    return RedoJournal.open(directory, filesystem or FileSystem())


def write_rounds(directory: Path, *rounds: list[RedoTransaction]) -> Path:
    """Write rounds to one file, and return it."""
    journal = open_journal(directory)
    number = journal.last_number + 1
    for each in rounds:
        journal.write(number, each)
    journal.close()
    return max(directory.glob("redo-*.log"))


def read(directory: Path) -> list[RedoTransaction]:
    """Return all transactions found."""
    return read_redo_journal(directory, FileSystem()).transactions
