"""A file system (FUSE) that hands everything on to a directory, and hangs when a test says so.

    python -m tests.disk.hanging_files DIRECTORY MOUNT_POINT ORDERS

`ORDERS` is a file outside of it: the names of the operations that hang, separated by spaces, or
`all`. Such an operation waits until the file says something else; then it is done.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import mfusepy

_ASK_SECONDS = 0.01
_ATTRIBUTES = (
    "st_atime",
    "st_ctime",
    "st_gid",
    "st_ino",
    "st_mode",
    "st_mtime",
    "st_nlink",
    "st_size",
    "st_uid",
)
_SPACE = (
    "f_bavail",
    "f_bfree",
    "f_blocks",
    "f_bsize",
    "f_favail",
    "f_ffree",
    "f_files",
    "f_flag",
    "f_frsize",
    "f_namemax",
)
_NAMES = (
    "getattr readdir mkdir rmdir unlink rename link chmod utimens mknod create open read write "
    "truncate fsync fsyncdir statfs"
)
_OPERATIONS = frozenset(_NAMES.split())


class HangingFiles(mfusepy.Operations):  # type: ignore[misc]
    """The operations of the file system.

    Args:
        directory: Directory with the files.
        orders: File that says what hangs.
    """

    use_ns = True

    def __init__(self, directory: Path, orders: Path) -> None:
        self._root = str(directory)
        self._orders = orders

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute; an operation waits first while the orders say that it hangs."""
        found = super().__getattribute__(name)
        if name not in _OPERATIONS:
            return found

        def carried_out(*arguments: Any, **named: Any) -> Any:
            while set(self._orders.read_text().split()) & {name, "all"}:
                time.sleep(_ASK_SECONDS)
            return found(*arguments, **named)

        return carried_out

    def _at(self, path: str) -> str:
        return self._root + path

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Return the attributes of a file."""
        found = os.lstat(self._at(path))
        values = {name: getattr(found, name) for name in _ATTRIBUTES}
        for name in ("st_atime", "st_ctime", "st_mtime"):
            values[name] = getattr(found, f"{name}_ns")
        return values

    def init(self, path: str) -> None:
        """Say that the file system is there."""
        print("mounted", flush=True)

    def readdir(self, path: str, fh: int) -> list[str]:
        """Return the names in a directory."""
        return [".", "..", *os.listdir(self._at(path))]

    def mkdir(self, path: str, mode: int) -> None:
        """Make a directory."""
        os.mkdir(self._at(path), mode)

    def rmdir(self, path: str) -> None:
        """Remove a directory."""
        os.rmdir(self._at(path))

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(self._at(path))

    def rename(self, old: str, new: str) -> None:
        """Rename a file."""
        os.replace(self._at(old), self._at(new))

    def link(self, target: str, source: str) -> None:
        """Give a file another name."""
        os.link(self._at(source), self._at(target))

    def chmod(self, path: str, mode: int) -> None:
        """Change the mode of a file."""
        os.chmod(self._at(path), mode)

    def utimens(self, path: str, times: tuple[int, int]) -> None:
        """Change the times of a file."""
        os.utime(self._at(path), ns=times)

    def mknod(self, path: str, mode: int, dev: int) -> None:
        """Make a socket or another special file."""
        os.mknod(self._at(path), mode, dev)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """Create a file and open it."""
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path: str, flags: int) -> int:
        """Open a file."""
        return os.open(self._at(path), flags & ~os.O_APPEND)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Read from a file."""
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Write to a file."""
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        """Cut or extend a file."""
        os.truncate(self._at(path) if fh is None else fh, length)

    def flush(self, path: str, fh: int) -> None:
        """Take note that a descriptor was closed."""

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        """Sync a file."""
        os.fsync(fh)

    def fsyncdir(self, path: str, datasync: int, fh: int) -> None:
        """Sync a directory."""

    def release(self, path: str, fh: int) -> None:
        """Close a file."""
        os.close(fh)

    def statfs(self, path: str) -> dict[str, int]:
        """Return the space of the disk."""
        found = os.statvfs(self._at(path))
        return {name: getattr(found, name) for name in _SPACE}


if __name__ == "__main__":
    directory, mount_point, orders = map(Path, sys.argv[1:])
    operations = HangingFiles(directory, orders)
    mfusepy.FUSE(operations, str(mount_point), foreground=True, nothreads=False)
