"""Document files on a disk that fails, or a machine that stops, at the Nth operation."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metadata.document_files import DocumentFiles


class StoppedError(Exception):
    """The machine has stopped: no OSError, so the store does not handle it."""


class FaultyFiles(DocumentFiles):
    """Counts changing operations, and interrupts the one numbered `fault_at`.

    Attributes:
        operations: Operations begun so far.
        fault: Raised by operation `fault_at`, and by all later ones when it is a StoppedError.
        written_bytes: How much of a file the interrupted write leaves.
    """

    def __init__(self, fault_at: int, fault: Exception, written_bytes: int = 0) -> None:
        self.operations = 0
        self.fault = fault
        self.written_bytes = written_bytes
        self._fault_at = fault_at

    @contextmanager
    def _operation(self) -> Iterator[bool]:
        number = self.operations
        self.operations += 1
        if number > self._fault_at and isinstance(self.fault, StoppedError):
            raise self.fault
        yield number == self._fault_at
        if number == self._fault_at:
            raise self.fault

    async def write(self, path: Path, content: bytes) -> None:
        with self._operation() as is_faulty:
            await super().write(path, content[: self.written_bytes] if is_faulty else content)

    async def rename(self, source: Path, target: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                await super().rename(source, target)

    async def remove(self, path: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                await super().remove(path)

    async def make_directory(self, path: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                await super().make_directory(path)

    async def remove_directory(self, path: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                await super().remove_directory(path)

    async def sync_directory(self, path: Path) -> None:
        with self._operation() as is_faulty:
            if not is_faulty:
                await super().sync_directory(path)
