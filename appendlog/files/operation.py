"""A file operation that has begun and not returned yet."""

from collections.abc import Hashable
from pathlib import Path
from typing import NamedTuple


class Operation(NamedTuple):
    """A file operation that a thread has begun, as another thread sees it.

    Attributes:
        key: Differs from that of every other operation.
        name: Name of the system call.
        where: The file: its path, or the descriptor of an open file.
    """

    key: Hashable
    name: str
    where: Path | int

    @property
    def path(self) -> str:
        """The path of the file, as far as it is known."""
        if isinstance(self.where, Path):
            return str(self.where)
        try:
            # Asks the kernel, not the disk.
            return str(Path(f"/proc/self/fd/{self.where}").readlink())
        except OSError:
            return f"(descriptor {self.where})"
