"""A mapping that knows whether its file is still as long as it was."""

import mmap
from typing import Self


class MappedFile(mmap.mmap):
    """Read-only mapping of a part of a file that should never change.

    Nothing of this server shortens a mapped file, but a person or a failing file system may. An
    access behind the end of such a file is a SIGBUS, which ends the process. So a caller that
    uses a mapping again after a while first asks whether the file is whole.

    Attributes:
        file_end: Position in the file where the mapping ends.
    """

    file_end: int

    @classmethod
    def of(cls, descriptor: int, size: int, position: int = 0) -> Self:
        """Map `size` bytes of an open file; the descriptor may then be closed.

        Raises:
            ValueError: `size` is 0, or the file is shorter.
            OSError: The file cannot be mapped.
        """
        # The mapping has a descriptor of its own.
        mapping = cls(descriptor, size, access=mmap.ACCESS_READ, offset=position)
        mapping.file_end = position + size
        return mapping

    @property
    def is_whole(self) -> bool:
        """Whether the file still has all bytes of the mapping: one call of fstat.

        False also if the file's attributes cannot be read.
        """
        try:
            return self.size() >= self.file_end
        except OSError:
            return False
