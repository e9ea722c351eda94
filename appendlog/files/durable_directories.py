"""Directories whose names are on the disk: made first, synced before something depends on them.

A file is durable when its bytes are on the disk, its name in its directory, that directory's name
in its parent, and so on up to a directory that existed before. Each level takes one sync. Many
logs share their parents, and a parent needs only one sync.
"""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from appendlog.files.deleted_mark import remove_deleted_mark, set_deleted_mark
from appendlog.files.filesystem import FileSystem

_KNOWN_MAX: Final = 4096


class DurableDirectories:
    """Maker of directories below a root, which knows those that are durable. Thread-safe.

    Args:
        root: Existing durable directory; nothing above it is touched.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._safe: set[Path] = set()
        self._deleted: set[Path] = set()
        # Held only for the sets of names, never during a sync.
        self._lock = threading.Lock()

    def make(self, filesystem: FileSystem, path: Path) -> None:
        """Make a directory below the root, with its missing parents.

        If its log was marked as deleted before, the directory gets the mark at once, before
        anything else is in it.

        Raises:
            OSError: A directory cannot be made.
        """
        with self._lock:
            self._make(filesystem, path)
            is_deleted = path in self._deleted
        if is_deleted:
            set_deleted_mark(filesystem, path)

    def mark_deleted(self, filesystem: FileSystem, path: Path) -> None:
        """Mark the log in a directory as deleted, durably; see `deleted_mark`.

        A log without records has no directory, and gets none. If another thread is making it for
        the first append, that thread sets the mark. The mark is remembered until `note_removed`.

        Raises:
            OSError: The operation failed; the mark may exist or not.
        """
        with self._lock:
            if not filesystem.exists(path):
                self._deleted.add(path)
                return
        set_deleted_mark(filesystem, path)

    def remove_mark(self, filesystem: FileSystem, path: Path) -> None:
        """Remove the deleted mark of the log in a directory, durably.

        Raises:
            OSError: The operation failed; the mark may exist or not.
        """
        with self._lock:
            self._deleted.discard(path)
        remove_deleted_mark(filesystem, path)

    def note_removed(self, filesystem: FileSystem, path: Path) -> None:
        """Remove the mark of a log whose directory is gone; remove its parent if that is empty.

        Another log of the same queue name may be about to make its own directory there. If it is
        first, the parent stays; otherwise it makes the parent again.
        """
        with self._lock:
            self._deleted.discard(path)
            self._safe.discard(path)
            if self._root in path.parent.parents:
                with suppress(OSError):
                    filesystem.rmdir(path.parent)
                    self._safe.discard(path.parent)

    def _make(self, filesystem: FileSystem, path: Path) -> None:
        missing: list[Path] = []
        while not filesystem.exists(path):
            missing.append(path)
            path = path.parent
        for directory in reversed(missing):
            self._safe.discard(directory)
            try:
                filesystem.mkdir(directory)
            except FileExistsError:
                # Another process made it: its name may not be on the disk yet.
                continue

    def sync(self, filesystem: FileSystem, path: Path) -> None:
        """Sync the names of a directory and of all its parents that are not on the disk yet.

        Call it after `make`, whichever thread made them: of two threads that need the same parent,
        neither may rely on a sync that the other has not done yet.

        Raises:
            OSError: A directory cannot be synced.
        """
        unsafe: list[Path] = []
        while path != self._root and path != path.parent and path not in self._safe:
            unsafe.append(path)
            path = path.parent
        for directory in reversed(unsafe):
            filesystem.sync_directory(directory.parent)
            if len(self._safe) >= _KNOWN_MAX:
                self._safe.clear()
            self._safe.add(directory)


def existing_root(filesystem: FileSystem, path: Path) -> Path:
    """Return a path, or the closest of its parents that exists."""
    while not filesystem.exists(path) and path != path.parent:
        path = path.parent
    return path
