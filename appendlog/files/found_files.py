"""Whether the files that a start has found are on the disk.

What a log has behind its durable end may be in the page cache alone, so a start syncs it before it
counts: the segment, and the directories above it. That is a wait for the disk for each. A power cut
leaves thousands of such logs, since no `end` file is ever synced; one sync of the whole file system
then does for all of them.
"""

import logging
import threading
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem

logger = logging.getLogger("appendlog.files.found_files")

SINGLY_MAX: Final = 32
"""Logs that are synced by themselves: what others have written to the file system may be much."""


class FoundFiles:
    """Files that were there when a process began; nobody else changes them. Thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._are_synced: dict[int, bool] = {}
        self._lock = threading.Lock()

    def are_synced(self, filesystem: FileSystem, directory: Path) -> bool:
        """Return whether all files of a file system are on the disk; may sync it, and wait.

        What this process has written since it began may be on the disk or not.

        Args:
            filesystem: File operations.
            directory: Directory of a log.

        Returns:
            False if the log has to sync its files itself: because few do, because its file system
            cannot be synced as a whole, or because that has failed.

        Raises:
            OSError: The directory is not there.
        """
        with self._lock:
            self._count += 1
            if self._count <= SINGLY_MAX:
                return False
            device = filesystem.device(directory)
            known = self._are_synced.get(device)
            if known is None:
                known = self._are_synced[device] = self._sync(filesystem, directory)
            return known

    def _sync(self, filesystem: FileSystem, directory: Path) -> bool:
        try:
            if not filesystem.syncs_as_a_whole(directory):
                return False
            filesystem.sync_filesystem(directory)
        except OSError as error:
            logger.warning("file system not synced as a whole path=%s error=%s", directory, error)
            return False
        return True
