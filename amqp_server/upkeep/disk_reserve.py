"""Reserved disk space for the writes that free disk space.

The broker removes a segment only after a checkpoint on the disk says that all its messages are
settled. On a full disk no checkpoint can be written, so nothing would ever be removed: consumers
acknowledge everything, and the disk stays full. The file `reserve` in the data directory prevents
this. The broker removes it when a checkpoint, a commit or a definition finds no room, and creates
it again when there is room. Appends to the logs never use it: they are what fills the disk.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from amqp_server.broker.storing.failed_stores import PAUSE_MAX, is_disk_full
from metadata.document_files import DocumentFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from appendlog import FileSystem

    ResultT = TypeVar("ResultT")

logger = logging.getLogger("amqp_server.disk_reserve")

RESERVE_NAME: Final = "reserve"
"""Name of the file in the data directory."""
RESERVE_BYTES: Final = 1 << 20
"""Size of the reserve: a checkpoint of 18,000 queues, and the footers of their last segments."""


class DiskReserve:
    """The reserve of one data directory. Thread-safe; all methods except `is_due` may block.

    Args:
        storage_path: The data directory.
        filesystem: File operations for the reserve.
        free_bytes_min: Free bytes of the disk alarm. The reserve is created again only when twice
            its size is free above that, so that it does not take the space that it has just freed.
    """

    def __init__(self, storage_path: Path, filesystem: FileSystem, free_bytes_min: int) -> None:
        self._path = storage_path / RESERVE_NAME
        self._filesystem = filesystem
        self._free_bytes_min = free_bytes_min + 2 * RESERVE_BYTES
        self._is_there = False
        self._is_missed = False
        self._looks_left = 1
        self._pause = 1
        self._lock = threading.Lock()

    def open(self) -> None:
        """Check whether the file exists; remove it if a start has no room without it.

        Recovery writes as well: without room it would have to leave out queues.

        Raises:
            OSError: The data directory cannot be read.
        """
        if self._filesystem.exists(self._path):
            self._is_there = self._filesystem.file_size(self._path) >= RESERVE_BYTES
        if self._is_there and self._filesystem.free_bytes(self._path) < RESERVE_BYTES:
            self.release("no room for recovery")

    def run(self, write: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Run a write; if the disk is full, remove the reserve and run it again.

        Args:
            write: Write operation that may run twice; raises an OSError, or an error with one as
                its `cause`.
            arguments: Arguments of `write`.
        """
        try:
            return write(*arguments)
        except Exception as error:
            if not self.release_for(error):
                raise
        return write(*arguments)

    def release_for(self, error: Exception) -> bool:
        """Remove the reserve if a write failed for want of room; return whether that made some.

        Args:
            error: An OSError, or an error with one as its `cause`.
        """
        return is_disk_full(getattr(error, "cause", error)) and self.release(error)

    def release(self, reason: object) -> bool:
        """Remove the file; return whether that made room."""
        with self._lock:
            if not self._is_there:
                return False
            try:
                self._filesystem.unlink(self._path)
            except OSError as error:
                logger.warning("disk reserve not released path=%s error=%s", self._path, error)
                return False
            self._is_there = False
            self._is_missed = True
            # Most file systems release the blocks only when their own journal is written.
            with suppress(OSError):
                self._filesystem.sync_directory(self._path.parent)
        logger.error(
            "disk full, reserve released path=%s bytes=%d reason=%s",
            self._path,
            RESERVE_BYTES,
            reason,
        )
        return True

    def is_due(self, free_bytes: int) -> bool:
        """Return whether to call `restore`; call this once for each disk check."""
        if self._is_there or free_bytes < self._free_bytes_min:
            return False
        self._looks_left -= 1
        return self._looks_left <= 0

    def restore(self) -> None:
        """Create the file again. After a failure it is due later, at growing intervals."""
        with self._lock:
            if self._is_there:
                return
            try:
                # Random bytes, not zeros: some file systems store no blocks for zeros.
                self._filesystem.write_file(self._path, os.urandom(RESERVE_BYTES))
                self._filesystem.sync_directory(self._path.parent)
            except OSError as error:
                self._pause = min(2 * self._pause, PAUSE_MAX)
                self._looks_left = self._pause
                with suppress(OSError):
                    self._filesystem.unlink(self._path)
                logger.warning("disk reserve not created path=%s error=%s", self._path, error)
                return
            self._looks_left = 1
            self._pause = 1
            self._is_there = True
        if self._is_missed:
            logger.warning("disk reserve restored path=%s bytes=%d", self._path, RESERVE_BYTES)


class ReservedDocumentFiles(DocumentFiles):
    """Files of the definitions, written with the help of the reserve if the disk is full.

    Batches do not use it: an import frees no space.

    Args:
        filesystem: File operations.
        reserve: Reserve that makes room.
    """

    def __init__(self, filesystem: FileSystem, reserve: DiskReserve) -> None:
        super().__init__(filesystem)
        self._reserve = reserve

    def write(self, path: Path, content: bytes) -> None:
        """Create or overwrite a file; return when its content is on the disk."""
        self._reserve.run(super().write, path, content)

    def make_directory(self, path: Path) -> None:
        """Create one directory if it is missing."""
        self._reserve.run(super().make_directory, path)

    def with_room(self, write: Callable[[], None]) -> None:
        """Run a write that belongs to a document but is not one itself."""
        self._reserve.run(write)
