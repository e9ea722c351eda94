"""A file system that fails on demand, holds syncs, and loses what was not synced.

It works on real files below one directory and keeps beside them what a disk would hold:
the bytes that were synced, and the directory entries that were. `power_cut` puts the
files back to that. The model is strict: fsync of a new file does not save its name.
"""

import os
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from appendlog.files.filesystem import FileSystem

_READING = frozenset({"open", "close", "pread", "size", "listdir", "exists"})


@dataclass
class DurableFile:
    """One file (inode) as the disk holds it."""

    data: bytearray = field(default_factory=bytearray)


class FaultyFileSystem(FileSystem):
    """See the module.

    Args:
        root: Directory of the test; everything is below it.
        fail_at: Number of the changing operation (0-based) from which on all fail.
        error: errno of the failure.
        has_dsync: False makes writers use fdatasync.

    Attributes:
        operations: Names of the changing operations so far.
        sync_gate: Syncs wait until it is set; set at first.
        sync_waiting: Set when a sync waits at the gate.
    """

    def __init__(
        self, root: Path, fail_at: int | None = None, error: int = 5, has_dsync: bool = True
    ) -> None:
        self.root = root
        self.fail_at = fail_at
        self.error = error
        self.has_dsync = has_dsync
        self.operations: list[str] = []
        self.sync_gate = threading.Event()
        self.sync_gate.set()
        self.sync_waiting = threading.Event()
        self.read_bytes = 0
        self._files: dict[Path, DurableFile] = {}
        self._durable_names: dict[Path, DurableFile] = {}
        self._durable_directories: set[Path] = {root}
        self._descriptors: dict[int, DurableFile] = {}

    @property
    def open_count(self) -> int:
        """Return the number of open descriptors."""
        return len(self._descriptors)

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        is_new = not path.exists()
        if is_new and flags & os.O_CREAT:
            self._operation("create")
        if flags & os.O_WRONLY:
            flags ^= os.O_WRONLY | os.O_RDWR  # a sync reads what it is to keep
        descriptor = super().open(path, flags, mode)
        if is_new or path not in self._files:
            content = b"" if is_new else path.read_bytes()
            self._files[path] = DurableFile(bytearray(content))
            if not is_new:
                self._durable_names[path] = self._files[path]
                self._durable_directories.update(path.parents)
        self._descriptors[descriptor] = self._files[path]
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
        return super().pwrite(descriptor, data, position)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        self._operation("pwritev", descriptor, buffers, position)
        written = super().pwritev(descriptor, buffers, position, False)
        if sync:
            self._pass_gate()
            durable = self._descriptors[descriptor].data
            if len(durable) < position:
                durable.extend(bytes(position - len(durable)))
            durable[position : position + written] = b"".join(buffers)[:written]
        return written

    def fsync(self, descriptor: int) -> None:
        self._operation("fsync")
        self._pass_gate()
        self._sync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        self._operation("fdatasync")
        self._pass_gate()
        self._sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        self._operation("truncate")
        super().truncate(descriptor, size)

    def rename(self, source: Path, target: Path) -> None:
        self._operation("rename")
        super().rename(source, target)
        self._files[target] = self._files.pop(source)

    def unlink(self, path: Path) -> None:
        self._operation("unlink")
        if path not in self._files:
            self._files[path] = self._durable_names[path] = DurableFile(
                bytearray(path.read_bytes())
            )
        super().unlink(path)
        del self._files[path]

    def mkdir(self, path: Path) -> None:
        self._operation("mkdir")
        super().mkdir(path)

    def rmdir(self, path: Path) -> None:
        self._operation("rmdir")
        super().rmdir(path)

    def sync_directory(self, path: Path) -> None:
        self._operation("sync_directory")
        self._pass_gate()
        for known in [name for name in list(self._durable_names) if name.parent == path]:
            if known not in self._files:
                del self._durable_names[known]
        for name, file in list(self._files.items()):
            if name.parent == path:
                self._durable_names[name] = file
        self._durable_directories.update(child for child in path.iterdir() if child.is_dir())

    def power_cut(self, keep: random.Random | None = None) -> None:
        """Put the files back to what the disk holds; the object is not used afterwards.

        Args:
            keep: Decides, file by file, how much of what was not synced survived: the
                kernel may have written any of it. None loses it all.
        """
        for descriptor in list(self._descriptors):
            self.close(descriptor)
        survivors = dict(self._durable_names)
        for path, file in self._files.items():
            if keep is not None and path.exists() and keep.random() < 0.7:
                survivors[path] = DurableFile(_mixed(keep, file.data, path.read_bytes()))
        for path in self._files:
            path.unlink(missing_ok=True)
        for path, file in survivors.items():
            if path.parent in self._durable_directories or keep is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.data)

    def _sync(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self._descriptors[descriptor].data[:] = os.pread(descriptor, size, 0)

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
        number = len(self.operations)
        self.operations.append(name)
        if self.fail_at is None or number < self.fail_at:
            return
        if number == self.fail_at and descriptor >= 0:
            # A failing write may leave its first half.
            data = b"".join(buffers)
            os.pwrite(descriptor, data[: len(data) // 2], position)
        raise OSError(self.error, os.strerror(self.error))


def _mixed(keep: random.Random, durable: bytearray, latest: bytes) -> bytearray:
    """Return what a disk may hold between its last sync and the latest bytes."""
    size = keep.randint(min(len(durable), len(latest)), max(len(durable), len(latest)))
    mixed = bytearray(latest[:size].ljust(size, b"\0"))
    for start in range(0, size, 64):
        if keep.random() < 0.3:
            block = durable[start : start + 64]
            mixed[start : start + 64] = block.ljust(min(64, size - start), b"\0")
    return mixed
