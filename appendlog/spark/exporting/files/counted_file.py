"""A file that knows how much was written to it, and the digest of that, when it is done."""

import hashlib
import io
from typing import BinaryIO


class CountedFile(io.RawIOBase):
    """Passes what is written on to another file.

    Args:
        file: To write to; borrowed, closing this one does not close it.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        """Return the digest of all that was written, 64 hexadecimal digits."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Write all of it; return how much that is."""
        view = memoryview(data)
        self._digest.update(view)
        self._file.write(view)
        self.size_bytes += view.nbytes
        return view.nbytes
