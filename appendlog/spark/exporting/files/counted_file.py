"""Counts the bytes that are written to a file, and computes their digest."""

import hashlib
import io
from typing import BinaryIO


class CountedFile(io.RawIOBase):
    """Writes to another file, and counts the bytes.

    Args:
        file: File to write to; borrowed: closing this one does not close it.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        """Return the SHA-256 digest of all written bytes, 64 hexadecimal digits."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Write all of the data; return its size."""
        view = memoryview(data)
        self._digest.update(view)
        self._file.write(view)
        self.size_bytes += view.nbytes
        return view.nbytes
