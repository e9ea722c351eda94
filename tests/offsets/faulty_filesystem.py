"""A disk that fails, or a machine that stops, at the Nth operation that changes something."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from appendlog.files.filesystem import FileSystem


class StoppedError(Exception):
    """The machine has stopped: no OSError, so the store does not handle it."""


class FaultyFileSystem(FileSystem):
    """Interrupts operation `fault_at`; after a StoppedError nothing works any more.

    Attributes:
        operations: Changing operations begun so far.
        open_descriptors: Descriptors not closed yet.
    """

    def __init__(
        self,
        fault_at: int,
        fault: Exception,
        written_bytes: int = 0,
        has_dsync: bool = True,
    ) -> None:
        """Fail operation `fault_at` with `fault`; a failing write leaves `written_bytes`."""
        self.operations = 0
        self.open_descriptors: dict[int, Path] = {}
        self.has_dsync = has_dsync and FileSystem.has_dsync
        self._fault_at = fault_at
        self._fault = fault
        self._written_bytes = written_bytes
        self._synced_bytes: dict[Path, int] = {}
        self._undo: list[Callable[[], object]] = []

    @contextmanager
    def _operation(self) -> Iterator[bool]:
        number = self.operations
        self.operations += 1
        if number > self._fault_at and isinstance(self._fault, StoppedError):
            raise self._fault
        yield number == self._fault_at
        if number == self._fault_at:
            raise self._fault

    def lose_what_was_not_synced(self) -> None:
        """Put the disk into the worst state that a power cut may leave."""
        for undo in reversed(self._undo):
            undo()
        for path, size in self._synced_bytes.items():
            if path.exists():
                os.truncate(path, size)

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        if not flags & os.O_CREAT:
            descriptor = super().open(path, flags, mode)
            self.open_descriptors[descriptor] = path
            return descriptor
        with self._operation() as is_faulty:
            if not is_faulty:
                descriptor = super().open(path, flags, mode)
                self.open_descriptors[descriptor] = path
                self._synced_bytes[path] = 0
        return descriptor

    def close(self, descriptor: int) -> None:
        self.open_descriptors.pop(descriptor, None)
        super().close(descriptor)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        with self._operation() as is_faulty:
            if is_faulty:
                buffers = [b"".join(buffers)[: self._written_bytes]]
            written = super().pwritev(descriptor, buffers, position, sync and not is_faulty)
            if sync and not is_faulty:
                self._synced_bytes[self.open_descriptors[descriptor]] = position + written
        return written

    def fsync(self, descriptor: int) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                self._synced_bytes[self.open_descriptors[descriptor]] = self.size(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        self.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                super().truncate(descriptor, size)

    def rename(self, source: Path, target: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                super().rename(source, target)
                self._move(source, target)
                self._undo += [lambda: self._move(target, source), lambda: target.rename(source)]

    def _move(self, source: Path, target: Path) -> None:
        if source in self._synced_bytes:
            self._synced_bytes[target] = self._synced_bytes.pop(source)
        for descriptor, path in self.open_descriptors.items():
            if path == source:
                self.open_descriptors[descriptor] = target

    def unlink(self, path: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                content = path.read_bytes()
                super().unlink(path)
                self._undo.append(lambda: path.write_bytes(content))

    def mkdir(self, path: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                super().mkdir(path)

    def sync_directory(self, path: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                super().sync_directory(path)
                self._undo.clear()
