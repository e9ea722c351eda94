"""A file system that fails on demand, holds syncs, and loses what was not synced.

It works on real files below one directory and keeps beside them what a disk would hold
(`tests.faults.disk`). One object serves all storage rooms: `appendlog` and `offsets` directly,
`metadata` through its `DocumentFiles`. Operations are numbered, so that a test can fail each of
them in turn.
"""

import errno
import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from amqp_server.testing.unsynced_files import UnsyncedFileSystem
from appendlog.files.filesystem import DIRECTORY_MODE, FILE_MODE, FileSystem
from tests.faults.disk import Disk, restore

_SYNCS = frozenset({"sync", "sync_write", "sync_directory", "sync_all"})


class StoppedError(Exception):
    """The machine has stopped: no OSError, so no code handles it."""


class Change(NamedTuple):
    """One thing that an operation did to the disk.

    Attributes:
        operation: Number of the operation.
        name: Method of `Disk`.
        arguments: Of that method.
    """

    operation: int
    name: str
    arguments: tuple[object, ...]

    @property
    def is_sync(self) -> bool:
        """Whether it makes something durable, and changes nothing else."""
        return self.name in _SYNCS

    def apply(self, disk: Disk) -> None:
        """Do it to a disk."""
        getattr(disk, self.name)(*self.arguments)


class FaultyFileSystem(UnsyncedFileSystem):
    """See the module. Any thread may use it.

    Args:
        root: Directory of the test; everything is below it.
        fail_at: Number of the changing operation (0-based) that fails; None fails none.
        error: errno of the failure, or what is raised.
        has_dsync: False makes writers use fdatasync.
        failing_operations: How many operations fail, one behind the other; None is all.
        written_bytes: How much a failing write leaves; None is half of it.

    Attributes:
        operations: Names of the changing operations so far.
        changes: What they did, if `keep_changes` was called.
        sync_gate: Syncs wait until it is set; set at first.
        sync_waiting: Set when a sync waits at the gate.
        read_bytes: Bytes read so far.
        is_whole: Whether the file system can be synced as a whole.
    """

    def __init__(
        self,
        root: Path,
        fail_at: int | None = None,
        error: int | BaseException = errno.EIO,
        has_dsync: bool = True,
        *,
        failing_operations: int | None = None,
        written_bytes: int | None = None,
    ) -> None:
        self.root = root
        self.fail_at = fail_at
        self.error = error
        self.has_dsync = has_dsync and FileSystem.has_dsync
        self.failing_operations = failing_operations
        self.written_bytes = written_bytes
        self.is_whole = True
        self.operations: list[str] = []
        self.changes: list[Change] | None = None
        self.sync_gate = threading.Event()
        self.sync_gate.set()
        self.sync_waiting = threading.Event()
        self.read_bytes = 0
        self._disk = Disk()
        self._lock = threading.RLock()
        self._descriptors: dict[int, int] = {}

    @property
    def open_count(self) -> int:
        """Return the number of open descriptors."""
        return len(self._descriptors)

    def keep_changes(self) -> None:
        """Remember from now on what each operation does."""
        self.changes = []

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        is_new = not path.exists()
        if is_new and flags & os.O_CREAT:
            self._operation("create")
        if flags & os.O_WRONLY:
            flags ^= os.O_WRONLY | os.O_RDWR  # a sync reads what it is to keep
        with self._lock:
            if not is_new:
                self._learn(path)
            descriptor = super().open(path, flags, mode)
            if is_new:
                self._learn_parents(path)
                self._change("create", path)
            number = self._descriptors[descriptor] = self._disk.entries[path]
            if flags & os.O_TRUNC and not is_new:
                self._change("cut", number, 0)
        return descriptor

    def close(self, descriptor: int) -> None:
        # After a power cut the caller's descriptors are closed already.
        if self._descriptors.pop(descriptor, None) is not None:
            super().close(descriptor)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        data = super().pread(descriptor, size, position)
        self.read_bytes += len(data)
        return data

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        self._operation("pwrite", descriptor, [data], position)
        return self._write(descriptor, [data], position)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        self._operation("pwritev", descriptor, buffers, position)
        written = self._write(descriptor, buffers, position)
        if sync:
            self._pass_gate()
            with self._lock:
                self._change("sync_write", self._descriptors[descriptor])
        return written

    def fsync(self, descriptor: int) -> None:
        self._operation("fsync")
        self._pass_gate()
        with self._lock:
            self._change("sync", self._descriptors[descriptor])

    def fdatasync(self, descriptor: int) -> None:
        self._operation("fdatasync")
        self._pass_gate()
        with self._lock:
            self._change("sync", self._descriptors[descriptor])

    def truncate(self, descriptor: int, size: int) -> None:
        self._operation("truncate")
        with self._lock:
            super().truncate(descriptor, size)
            self._change("cut", self._descriptors[descriptor], size)

    def rename(self, source: Path, target: Path) -> None:
        self._operation("rename")
        with self._lock:
            for path in (source, target):
                self._learn_if_file(path)
            super().rename(source, target)
            self._change("rename", source, target)

    def unlink(self, path: Path) -> None:
        self._operation("unlink")
        with self._lock:
            self._learn_if_file(path)
            super().unlink(path)
            self._change("remove", path)

    def mkdir(self, path: Path, mode: int = DIRECTORY_MODE) -> None:
        self._operation("mkdir")
        with self._lock:
            super().mkdir(path, mode)
            self._learn_parents(path)
            self._change("make_directory", path)

    def rmdir(self, path: Path) -> None:
        self._operation("rmdir")
        with self._lock:
            super().rmdir(path)
            self._change("remove", path)

    def sync_directory(self, path: Path) -> None:
        self._operation("sync_directory")
        super().sync_directory(path)
        self._pass_gate()
        with self._lock:
            self._change("sync_directory", path)

    def syncs_as_a_whole(self, path: Path) -> bool:
        return self.is_whole

    def sync_filesystem(self, path: Path) -> None:
        self._operation("sync_filesystem")
        super().sync_filesystem(path)
        self._pass_gate()
        with self._lock:
            self._change("sync_all")

    def end_process(self) -> None:
        """Close what is open, as the end of the process does."""
        for descriptor in list(self._descriptors):
            self.close(descriptor)

    def power_cut(self, keep: random.Random | None = None) -> None:
        """Put the files back to what the disk holds; the object is not used afterwards.

        Args:
            keep: Decides, file by file, how much of what was not synced survived: the
                kernel may have written any of it. None loses it all.
        """
        with self._lock:
            self.end_process()
            survivors = self._disk.survivors(keep)
            for path in sorted(self._disk.entries, reverse=True):
                if path.is_file():
                    path.unlink()
                elif path.is_dir() and path not in survivors and not any(path.iterdir()):
                    path.rmdir()
            restore(survivors)

    def _write(self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        with self._lock:
            written = super().pwritev(descriptor, buffers, position, False)
            data = b"".join(buffers)[:written]
            self._change("write", self._descriptors[descriptor], position, data)
        return written

    def _learn_if_file(self, path: Path) -> None:
        """A link is not followed: what it leads to is no content of it, and may be a directory."""
        if path.is_file() and not path.is_symlink():
            self._learn(path)

    def _learn(self, path: Path) -> None:
        """Take in a file that was there before, or that a test changed directly."""
        number = self._disk.entries.get(path)
        content = path.read_bytes()
        if number is None or not self._disk.is_as(number, content):
            self._learn_parents(path)
            self._change("adopt", path, content)

    def _learn_parents(self, path: Path) -> None:
        for parent in (path.parent, *path.parent.parents):
            if self.root not in parent.parents or parent in self._disk.entries:
                break
            self._change("adopt", parent, None)

    def _change(self, name: str, *arguments: object) -> None:
        change = Change(len(self.operations) - 1, name, arguments)
        change.apply(self._disk)
        if self.changes is not None:
            self.changes.append(change)

    def _pass_gate(self) -> None:
        if not self.sync_gate.is_set():
            self.sync_waiting.set()
            self.sync_gate.wait()

    def _operation(
        self,
        name: str,
        descriptor: int = -1,
        buffers: Sequence[bytes | memoryview] = (),
        position: int = 0,
    ) -> None:
        with self._lock:
            number = len(self.operations)
            self.operations.append(name)
        if self.fail_at is None or number < self.fail_at:
            return
        if self.failing_operations is not None and number >= self.fail_at + self.failing_operations:
            return
        if number == self.fail_at and descriptor >= 0:
            data = b"".join(buffers)
            size = len(data) // 2 if self.written_bytes is None else self.written_bytes
            if data[:size]:
                self._write(descriptor, [data[:size]], position)
        if isinstance(self.error, int):
            raise OSError(self.error, os.strerror(self.error))
        raise self.error
