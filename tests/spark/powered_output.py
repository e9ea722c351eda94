"""The files of an export's output, on a disk that loses what was not synced.

`FaultyFileSystem` for `LocalStore`: it models hard links too, and sees what goes through Python's
own files, as Parquet writers want them. Such a write counts from the next operation on its file.
"""

import os
from pathlib import Path

from appendlog.files.filesystem import FileSystem
from appendlog.spark.exporting.stores.local_store import OutputFiles
from tests.faults.faulty_filesystem import FaultyFileSystem


class PoweredOutput(FaultyFileSystem, OutputFiles):
    """See the module."""

    def fsync(self, descriptor: int) -> None:
        """Sync a file, and all that was written to it so far."""
        size = os.fstat(descriptor).st_size
        self._note(self._descriptors[descriptor], os.pread(descriptor, size, 0))
        super().fsync(descriptor)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name in its directory."""
        self._operation("link")
        self._note(self._disk.entries[source], source.read_bytes())
        super().link(source, target)
        self._change("link", source, target)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, perhaps into another directory."""
        self._note(self._disk.entries[source], source.read_bytes())
        if source.parent == target.parent:
            super().rename(source, target)
            return
        self._operation("rename")
        FileSystem.rename(self, source, target)
        self._change("move", source, target)

    def end_process(self) -> None:
        """Forget the descriptors: Python's files have closed theirs, and others may have them."""
        self._descriptors.clear()

    def _note(self, number: int, content: bytes) -> None:
        """Take in what somebody wrote to a file without asking this object."""
        if not self._disk.is_as(number, content):
            self._change("cut", number, 0)
            self._change("write", number, 0, content)
