"""Directories whose names are on the disk: made first, synced when something depends on them.

A file is safe when its bytes are on the disk, its name in its directory, that directory's name in
its parent, and so on up to a directory that was there before. One sync each; but many logs
share their parents, and nothing has to be synced twice.
"""

from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem

_KNOWN_MAX: Final = 4096


class DurableDirectories:
    """Makes directories below a root, and knows which of them are safe. Thread-safe.

    Args:
        root: Is there and safe; nothing above it is touched.
    """

    def __init__(self, root: Path) -> None:
        """Begin with knowing of the root only: who made the others may have died before a sync."""
        self._root = root
        self._safe: set[Path] = set()

    def make(self, filesystem: FileSystem, path: Path) -> None:
        """Make a directory below the root, and its parents, where they are missing.

        Raises:
            OSError: One cannot be made.
        """
        missing: list[Path] = []
        while not filesystem.exists(path):
            missing.append(path)
            path = path.parent
        for directory in reversed(missing):
            self._safe.discard(directory)
            try:
                filesystem.mkdir(directory)
            except FileExistsError:
                # Another thread made it: its name may not be on the disk yet.
                continue

    def sync(self, filesystem: FileSystem, path: Path) -> None:
        """Put the names of a directory and of all its parents on the disk, where they are not.

        After `make`, whoever it was that made them: of two threads that need the same parent,
        neither may rely on a sync that the other has yet to do.

        Raises:
            OSError: One cannot be synced.
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
    """Return a path, or the closest of its parents that is there."""
    while not filesystem.exists(path) and path != path.parent:
        path = path.parent
    return path
