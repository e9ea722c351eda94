"""Room that is set aside on the disk, for what a server has to write to make room.

Segments go only when a checkpoint on the disk says that all in them is settled. On a disk without
a free byte that checkpoint cannot be written, so nothing would ever go: consumers acknowledge all
there is, and the disk stays full. A file of the data directory, `reserve`, ends this: it is
removed when a checkpoint, a commit or a definition finds no room, and made again when there is.
Appends to the logs never have it: they are what fills the disk.
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

logger = logging.getLogger(__name__)

RESERVE_NAME: Final = "reserve"
"""Of the file in the data directory."""
RESERVE_BYTES: Final = 1 << 20
"""Size of the reserve: the checkpoint of 18,000 queues, and the footers of their last segments."""


class DiskReserve:
    """The reserve of one data directory. Thread-safe; but for `is_due` all methods may block.

    Args:
        storage_path: The data directory.
        filesystem: All file calls go through it.
        free_bytes_min: Room that the disk should have left; the reserve is made again only when
            there is twice its size beyond that, or it would take what it has just given.
    """

    def __init__(self, storage_path: Path, filesystem: FileSystem, free_bytes_min: int) -> None:
        self._path = storage_path / RESERVE_NAME
        self._filesystem = filesystem
        self._free_bytes_min = free_bytes_min + 2 * RESERVE_BYTES
        self._is_there = False
        self._is_missed = False
        self._looks_left = self._pause = 1
        self._lock = threading.Lock()

    def open(self) -> None:
        """Find out whether the file is there; give it up if a start has no room without it.

        Recovery writes too: a queue whose log it cannot write would be left out.

        Raises:
            OSError: The data directory cannot be looked at.
        """
        if self._filesystem.exists(self._path):
            self._is_there = self._filesystem.file_size(self._path) >= RESERVE_BYTES
        if self._is_there and self._filesystem.free_bytes(self._path) < RESERVE_BYTES:
            self.release("no room to recover in")

    def run(self, write: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Write something, once more with the room of the reserve if there was none.

        Args:
            write: May be called twice; raises an OSError, or something with one as its `cause`.
            arguments: Of `write`.
        """
        try:
            return write(*arguments)
        except Exception as error:
            if not self.release_for(error):
                raise
        return write(*arguments)

    def release_for(self, error: Exception) -> bool:
        """Give the reserve up if a write failed for want of room; return whether that made some.

        Args:
            error: An OSError, or something with one as its `cause`.
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
                logger.warning("disk reserve not given up path=%s error=%s", self._path, error)
                return False
            self._is_there, self._is_missed = False, True
            # Most file systems give the blocks to others only when their journal says so.
            with suppress(OSError):
                self._filesystem.sync_directory(self._path.parent)
        logger.error(
            "disk full, reserve given up path=%s bytes=%d reason=%s",
            *(self._path, RESERVE_BYTES, reason),
        )
        return True

    def is_due(self, free_bytes: int) -> bool:
        """Tell, once for each look at the disk, whether to call `restore`."""
        if self._is_there or free_bytes < self._free_bytes_min:
            return False
        self._looks_left -= 1
        return self._looks_left <= 0

    def restore(self) -> None:
        """Make the file again. What fails is left for later, at growing intervals."""
        with self._lock:
            if self._is_there:
                return
            try:
                # Not zeros: some file systems keep no blocks for them.
                self._filesystem.write_file(self._path, os.urandom(RESERVE_BYTES))
                self._filesystem.sync_directory(self._path.parent)
            except OSError as error:
                self._looks_left = self._pause = min(2 * self._pause, PAUSE_MAX)
                with suppress(OSError):
                    self._filesystem.unlink(self._path)
                logger.warning("disk reserve not made path=%s error=%s", self._path, error)
                return
            self._looks_left = self._pause = 1
            self._is_there = True
        if self._is_missed:
            logger.warning("disk reserve restored path=%s bytes=%d", self._path, RESERVE_BYTES)


class ReservedDocumentFiles(DocumentFiles):
    """The files of the definitions, written with the room of the reserve if there is no other.

    Args:
        filesystem: Does it.
        reserve: Gives room.
    """

    def __init__(self, filesystem: FileSystem, reserve: DiskReserve) -> None:
        super().__init__(filesystem)
        self._reserve = reserve

    def write(self, path: Path, content: bytes) -> None:
        """Create or overwrite a file, and return when its content is on the disk."""
        self._reserve.run(super().write, path, content)

    def make_directory(self, path: Path) -> None:
        """Create one directory if it is missing."""
        self._reserve.run(super().make_directory, path)

    def with_room(self, write: Callable[[], None]) -> None:
        """Write something that is no document but belongs to one."""
        self._reserve.run(write)
