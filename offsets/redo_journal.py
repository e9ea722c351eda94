"""Redo journal: a transaction over several queues is on the disk before it is applied.

A transaction is committed when the round that holds it is on the disk. Only then is it applied. If
the server dies before the transaction has reached all logs, the next start applies it again. The
server appends to a file, and removes it when nothing in it can be needed any more.
docs/redo-format.md describes the format.
"""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from appendlog.files.durable_directories import DurableDirectories, existing_root
from appendlog.files.filesystem import FileSystem
from offsets.errors import RedoFailedError, RedoUnknownError
from offsets.redo_reading import RedoRecovery, read_redo_journal, redo_path
from offsets.redo_round import encode_redo_round
from offsets.redo_transaction import RedoTransaction

logger: Final = logging.getLogger("offsets.redo_journal")


class RedoJournal:
    """Redo files in one directory, made by `RedoJournal.open`.

    `write` and `close` belong to one thread at a time, never the event loop's. `remove` may run
    during them.

    Attributes:
        recovery: Result of reading the files at the opening.
    """

    def __init__(self, directory: Path, filesystem: FileSystem, recovery: RedoRecovery) -> None:
        """Continue after the rounds that were read; callers use `open`."""
        self.recovery = recovery
        self._directory = directory
        self._filesystem = filesystem
        self._directories = DurableDirectories(existing_root(filesystem, directory.parent))
        self._number = recovery.last_number
        self._descriptor = -1
        self._file_bytes = 0
        self._round = 0
        self._left_over: tuple[Path, int] | None = None

    @classmethod
    def open(cls, directory: Path, filesystem: FileSystem) -> Self:
        """Read the existing files; write nothing.

        Args:
            directory: Directory `transactions`; the first round makes it.
            filesystem: File operations.

        Raises:
            RedoFailedError: A file or the directory cannot be read.
            UnsupportedRedoError: A file is of another version.
        """
        return cls(directory, filesystem, read_redo_journal(directory, filesystem))

    @property
    def last_number(self) -> int:
        """Highest number of a file so far; the number of a new file must be greater."""
        return self._number

    @property
    def file_bytes(self) -> int:
        """Size of the file that was written last, in bytes."""
        return self._file_bytes

    def write(self, number: int, transactions: Sequence[RedoTransaction]) -> None:
        """Commit transactions: they are on the disk when this returns.

        One write and one sync for all of them, in the calling thread.

        Args:
            number: Number of the file to append to: that of the last call, or a greater one for a
                new file. After a failure it must be a new one.
            transactions: Transactions in the order of their commits, at least one.

        Raises:
            RedoUnknownError: The written part could not be undone: a restart may find the
                transactions committed. Every later call first tries to undo it again.
            RedoFailedError: No transaction is committed, and nothing of them is on the disk.
        """
        self._roll_back()
        try:
            if number != self._number or self._descriptor < 0:
                self._begin(number)
            buffers = encode_redo_round(
                number, self._round, transactions, written_at_ns=time.time_ns()
            )
            end = self._file_bytes
            is_new = self._round == 0
            end = self._filesystem.write_all(self._descriptor, buffers, end, sync=not is_new)
            if is_new:
                self._filesystem.fsync(self._descriptor)
                self._filesystem.sync_directory(self._directory)
                self._directories.sync(self._filesystem, self._directory)
        except OSError as cause:
            # With another descriptor: one whose write or sync has failed cannot be trusted.
            self.close()
            path = redo_path(self._directory, self._number)
            self._left_over = path, self._file_bytes if self._round else 0
            try:
                self._roll_back()
            except RedoFailedError:
                raise RedoUnknownError(path, cause) from cause
            raise RedoFailedError(path, cause) from cause
        self._file_bytes = end
        self._round += 1

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove files that are no longer needed; durable when this returns.

        Raises:
            RedoFailedError: Some files may be left, or may come back after a power cut.
        """
        self._remove([redo_path(self._directory, number) for number in numbers])

    def finish_recovery(self, remaining: Sequence[RedoTransaction]) -> None:
        """Remove the files found at the opening; keep the transactions in `remaining`.

        Files with unreadable parts are kept as `.damaged`. If this is interrupted at any point, the
        next opening finds at least the remaining transactions.

        Args:
            remaining: Transactions, or parts of them, that could not be applied yet.

        Raises:
            RedoFailedError: The operation failed; nothing is lost.
        """
        if remaining:
            self.write(self._number + 1, remaining)
            self.close()
        recovery = self.recovery
        try:
            for path in recovery.damaged_files:
                self._filesystem.rename(path, path.with_name(f"{path.name}.damaged"))
        except OSError as cause:
            raise RedoFailedError(self._directory, cause) from cause
        self._remove([path for path in recovery.files if path not in recovery.damaged_files])
        self.recovery = RedoRecovery(last_number=self._number)

    def close(self) -> None:
        """Close the file; a later round needs a new one. Writes nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            # The rounds were synced when they were written, so a failing close loses nothing.
            with suppress(OSError):
                self._filesystem.close(descriptor)

    def _begin(self, number: int) -> None:
        assert number > self._number, "a redo file is never used twice"
        self.close()
        self._number = number
        self._file_bytes = 0
        self._round = 0
        self._directories.make(self._filesystem, self._directory)
        path = redo_path(self._directory, number)
        self._descriptor = self._filesystem.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def _roll_back(self) -> None:
        """Undo a failed round; otherwise a restart could find it committed.

        Raises:
            RedoFailedError: The round may still be there.
        """
        if self._left_over is None:
            return
        path, size = self._left_over
        try:
            self._cut(path, size)
        except OSError as cause:
            logger.error(  # noqa: TRY400 - the message has the cause
                "redo round not undone path=%s error=%s", path, cause
            )
            raise RedoFailedError(path, cause) from cause
        self._left_over = None

    def _cut(self, path: Path, size: int) -> None:
        """Cut a file to its committed rounds, durably; remove it if it has none."""
        filesystem = self._filesystem
        if not filesystem.exists(path):
            # Never made, or removed by an earlier try whose sync of the directory may have failed.
            if filesystem.exists(self._directory):
                filesystem.sync_directory(self._directory)
            return
        if not size:
            filesystem.unlink(path)
        else:
            descriptor = filesystem.open(path, os.O_RDWR)
            try:
                filesystem.truncate(descriptor, size)
                filesystem.fsync(descriptor)
            finally:
                filesystem.close(descriptor)
        filesystem.sync_directory(self._directory)

    def _remove(self, paths: Sequence[Path]) -> None:
        if not paths:
            return
        try:
            for path in paths:
                if self._filesystem.exists(path):
                    self._filesystem.unlink(path)
            self._filesystem.sync_directory(self._directory)
        except OSError as cause:
            raise RedoFailedError(self._directory, cause) from cause
