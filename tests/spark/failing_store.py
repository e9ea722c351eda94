"""A directory that cannot be written to now and then; tasks of Spark get it as it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from appendlog.spark.exporting.stores.local_store import LocalStore


class FailingStore(LocalStore):
    """Fails at the files of one range, in each process of which there is a mark left.

    Args:
        root: The directory.
        marks: A directory with a file for each failure that is still to come.
        name: Part of the file's name that cannot be written.
    """

    def __init__(self, root: Path, marks: Path, name: str) -> None:
        super().__init__(root)
        self._marks = marks
        self._name = name

    @contextmanager
    def open_new(self, path: str) -> Iterator[BinaryIO]:
        """Fail while there are marks; each failure takes one."""
        if self._name in path:
            for mark in sorted(self._marks.iterdir()):
                mark.unlink()
                raise OSError(28, "No space left on device", path)
        with super().open_new(path) as file:
            yield file
