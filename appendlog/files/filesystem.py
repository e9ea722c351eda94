"""File operations of the storage packages: a thin layer that tests can replace.

Every file operation of `appendlog`, `metadata` and `offsets` goes through one `FileSystem`. The
methods of the first group are single operations, one system call each. Tests override them to fail
at operation N, to delay a sync, or to lose unsynced data. The second group is built from the first.
All methods raise OSError; the caller translates it.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from appendlog.files.mapped_file import MappedFile
from appendlog.files.mounts import file_system_type
from appendlog.files.open_files import OPEN_FILES

FILE_MODE: Final = 0o600
"""Mode of files: only their owner may read messages, wherever the data directory is."""
DIRECTORY_MODE: Final = 0o700
"""Mode of the directories that the storage packages make, including the data directory."""

_DSYNC: Final[int] = getattr(os, "RWF_DSYNC", 0)
_VECTOR_MAX: Final = 512  # buffers in one pwritev; Linux allows 1024
_NO_DSYNC: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_F_FULLFSYNC: Final = 51  # macOS: its fsync does not reach the platter
_SYNCED_AS_A_WHOLE: Final = frozenset(
    {"ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs"}
)
"""File systems that a `syncfs` brings to the disk. One of FUSE only gets the pages of its files,
and is not told to sync them; an overlay does not pass the errors of those below on; ext2 leaves the
cache of the disk alone."""
_REPORTS_SYNC_ERRORS: Final = (5, 17)
"""Version of Linux from which on `syncfs` returns all errors. From 5.8 on it returns those of the
files' pages, but not those of the journal and of the disk."""

ResultT = TypeVar("ResultT")

NATIVE_WRITES: Final = ("pwrite", "pwritev", "wont_need")
"""Operations that a kernel may replace where `FileSystem.writes_natively` says so."""
NATIVE_READS: Final = ("open", "pread", "size", "listdir", "scandir", "read_file")
"""Operations that a kernel may replace where `FileSystem.reads_natively` says so."""


class Room(NamedTuple):
    """The room on a disk for this user.

    Attributes:
        free_bytes: Bytes that can be written.
        block_bytes: Size of a block: a small file takes one.
        free_files: Files and directories that can be created.
        files: Most files that the file system can have; 0 if it has no such limit.
    """

    free_bytes: int
    block_bytes: int
    free_files: int
    files: int


class FileSystem:
    """File operations of the operating system. Thread-safe, without state."""

    has_dsync: bool = _DSYNC != 0
    """Whether a write can include its own sync; False after the kernel has refused it."""
    writes_natively: bool = True
    """Whether a compiled kernel may make the system calls of `NATIVE_WRITES` itself.

    It reports writes to `note_pwrite` or `note_pwritev`. Whoever defines one of these operations
    says whether it may; who says nothing forbids it.
    """

    reads_natively: bool = True
    """Whether a compiled kernel may list directories and read files itself.

    It reports to `note_reads`. Whoever defines an operation of `NATIVE_READS` says whether it may;
    who says nothing forbids it.
    """

    def __init_subclass__(cls) -> None:
        """See `writes_natively` and `reads_natively`."""
        super().__init_subclass__()
        if "writes_natively" not in vars(cls):
            cls.writes_natively = cls._allows("writes_natively", *NATIVE_WRITES)
        if "reads_natively" not in vars(cls):
            cls.reads_natively = cls._allows("reads_natively", *NATIVE_READS)

    @classmethod
    def _allows(cls, permission: str, *operations: str) -> bool:
        """Return whether all who define one of these operations permit a kernel to replace it."""
        owners = [
            next(vars(each) for each in cls.__mro__ if name in vars(each)) for name in operations
        ]
        return all(owner.get(permission, False) for owner in owners)

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Open a file, closed in child processes; do not wait for the other end of a pipe."""
        return OPEN_FILES.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read at most `size` bytes at `position`."""
        return os.pread(descriptor, size, position)

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Read at `position` into a buffer; return the number of bytes, 0 at the end."""
        return os.preadv(descriptor, [buffer], position)

    def will_need(self, descriptor: int, position: int, size: int) -> None:
        """Advise the kernel to read ahead data that is needed soon, if it supports that."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_WILLNEED)

    def wont_need(self, descriptor: int, position: int, size: int) -> None:
        """Advise the kernel to drop pages that are on the disk, if it supports that."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        """Write at `position`; return the number of bytes written."""
        return os.pwrite(descriptor, data, position)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write buffers at `position`, durably with `sync`; return the number of bytes written."""
        return os.pwritev(descriptor, buffers, position, _DSYNC if sync else 0)

    def note_pwrite(self, written: int, seconds: float) -> None:
        """Take note of a `pwrite` that a kernel has made, in any thread.

        Args:
            written: Number of bytes written; negative if it failed.
            seconds: Time that it took.
        """

    def note_pwritev(self, written: int, seconds: float) -> None:
        """Take note of a `pwritev` with its sync that a kernel has made, in any thread.

        Args:
            written: See `note_pwrite`.
            seconds: See `note_pwrite`.
        """

    def run_natively(self, name: str, path: str, operation: Callable[[], ResultT]) -> ResultT:
        """Run a kernel that makes operations on some files, and return its result.

        Args:
            name: Name of the system call that it makes most.
            path: Path of the first file.
            operation: Calls the kernel.
        """
        return operation()

    def note_reads(self, count: int, octets: int, seconds: float) -> None:
        """Take note of what a kernel has read, in any thread.

        Args:
            count: Number of reads.
            octets: Number of octets that they returned.
            seconds: Time that all of them took.
        """

    def fsync(self, descriptor: int) -> None:
        """Sync a file and all its attributes to the disk."""
        if sys.platform == "darwin":  # pragma: no cover - macOS only
            import fcntl

            fcntl.fcntl(descriptor, _F_FULLFSYNC)
        else:
            os.fsync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        """Sync a file's data, and the attributes needed to read it, to the disk."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(descriptor)
        else:  # pragma: no cover - macOS only
            self.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut or extend a file."""
        os.ftruncate(descriptor, size)

    def size(self, descriptor: int) -> int:
        """Return the size of an open file in bytes."""
        return os.fstat(descriptor).st_size

    def device(self, path: Path) -> int:
        """Return the number of the file system of a file or directory."""
        return path.stat().st_dev

    def file_size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return path.stat().st_size

    def map(self, descriptor: int, size: int, position: int = 0) -> MappedFile:
        """Map `size` bytes of a file for reading; the descriptor may then be closed.

        Args:
            descriptor: Descriptor of the open file.
            size: Number of bytes, at least 1.
            position: Position of the first byte, a multiple of `mmap.ALLOCATIONGRANULARITY`.

        Raises:
            ValueError: `size` is 0, or the file is shorter.
        """
        return OPEN_FILES.run(partial(MappedFile.of, descriptor, size, position))

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, atomically replacing `target`."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def mkdir(self, path: Path, mode: int = DIRECTORY_MODE) -> None:
        """Make one directory."""
        path.mkdir(mode)

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory."""
        return OPEN_FILES.run(partial(os.listdir, path))

    def scandir(self, path: Path) -> list[tuple[str, bool]]:
        """Return the names in a directory, and of each whether it is a directory.

        A symbolic link to a directory is none.
        """
        return OPEN_FILES.run(partial(_scan, path))

    def exists(self, path: Path) -> bool:
        """Return whether a file or directory exists."""
        return path.exists()

    def is_directory(self, path: Path) -> bool:
        """Return whether a directory exists; a symbolic link to one does not count."""
        try:
            return stat.S_ISDIR(path.lstat().st_mode)
        except FileNotFoundError:
            return False

    def free_bytes(self, path: Path) -> int:
        """Return the free space for this user on the disk of a file or directory, in bytes."""
        disk = os.statvfs(path)
        return disk.f_bavail * disk.f_frsize

    def room(self, path: Path) -> Room:
        """Return the room for this user on the disk of a file or directory."""
        disk = os.statvfs(path)
        return Room(self.free_bytes(path), disk.f_frsize, disk.f_favail, disk.f_files)

    def sync_directory(self, path: Path) -> None:
        """Sync a directory's entries: new, renamed and removed names."""
        descriptor = OPEN_FILES.open(path, os.O_RDONLY | os.O_CLOEXEC, FILE_MODE)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def syncs_as_a_whole(self, path: Path) -> bool:
        """Return whether everything is on the disk after a `sync_filesystem` that has not failed.

        That depends on the type of the file system, and on the version of the kernel.
        """
        if sys.platform != "linux" or _kernel_version() < _REPORTS_SYNC_ERRORS:
            return False
        return file_system_type(path) in _SYNCED_AS_A_WHOLE

    def sync_filesystem(self, path: Path) -> None:
        """Sync everything on the file system of a directory to the disk, in one call.

        It costs one wait for the disk, where a sync of each of thousands of files costs as many.
        See `syncs_as_a_whole`.
        """
        # Imported here: few programs need it.
        import ctypes

        sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        descriptor = OPEN_FILES.open(path, os.O_RDONLY | os.O_CLOEXEC, FILE_MODE)
        try:
            if sync is None:  # pragma: no cover - not on Linux
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(path))
            if sync(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            os.close(descriptor)

    def refuses_dsync(self, error: OSError) -> bool:
        """Return whether a write failed because it was to include its sync; no other will then."""
        if error.errno not in _NO_DSYNC:
            return False
        self.has_dsync = False
        return True

    def write_all(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write all buffers one after the other; return the position after them.

        With `sync` these bytes (not earlier ones) are on the disk afterwards, in one system call if
        the kernel has RWF_DSYNC.

        Raises:
            OSError: The write failed; which bytes were written is unknown.
        """
        for first in range(0, len(buffers), _VECTOR_MAX):
            group: Sequence[bytes | memoryview] = buffers[first : first + _VECTOR_MAX]
            end = position + sum(map(len, group))
            while True:
                is_durable = sync and self.has_dsync
                try:
                    written = self.pwritev(descriptor, group, position, is_durable)
                except OSError as error:
                    if not (is_durable and self.refuses_dsync(error)):
                        raise
                    continue
                position += written
                if position == end:
                    break
                group = _rest(group, written)
        if sync and not self.has_dsync:
            self.fdatasync(descriptor)
        return position

    def read_all(self, descriptor: int, size: int, position: int) -> bytes:
        """Read `size` bytes at `position`; fewer only at the end of the file."""
        data = self.pread(descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        read = len(data)
        while read < size and (data := self.pread(descriptor, size - read, position + read)):
            parts.append(data)
            read += len(data)
        return b"".join(parts)

    def write_file(self, path: Path, content: bytes) -> None:
        """Create or overwrite a file; its content is on the disk afterwards, its name not yet."""
        descriptor = self.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            # One call, not two: after each one this thread waits for the GIL of a busy event loop.
            self.write_all(descriptor, [content], 0, sync=True)
        finally:
            self.close(descriptor)

    def read_file(self, path: Path, max_bytes: int) -> bytes:
        """Return the first `max_bytes` of a file."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            return self.read_all(descriptor, min(self.size(descriptor), max_bytes), 0)
        finally:
            self.close(descriptor)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all its files; its name may come back after a power cut."""
        for name in self.listdir(path):
            if (path / name).is_dir() and not (path / name).is_symlink():
                self.remove_tree(path / name)
            else:
                self.unlink(path / name)
        self.rmdir(path)

    def sync_file(self, path: Path) -> None:
        """Sync a file and all its attributes to the disk; its name may not be there yet."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            self.fsync(descriptor)
        finally:
            self.close(descriptor)


def _kernel_version() -> tuple[int, ...]:
    """Return the first two numbers of the kernel's version."""
    return tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])


def _scan(path: Path) -> list[tuple[str, bool]]:
    with os.scandir(path) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _rest(group: Sequence[bytes | memoryview], written: int) -> Sequence[bytes | memoryview]:
    """Return the buffers that a write did not write."""
    for index, buffer in enumerate(group):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *group[index + 1 :]]
        written -= len(buffer)
    return ()
