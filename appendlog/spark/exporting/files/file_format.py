"""Interface of file formats; each format has a class.

A format depends on nothing of logs, offsets or outputs. It writes groups of rows to a binary file
that the caller opens and closes. Between two groups, the caller decides whether the file ends.
"""

from collections.abc import Mapping
from typing import BinaryIO, Protocol

import pyarrow as pa


class FileWriter(Protocol):
    """One file that is being written."""

    def write(self, rows: pa.Table) -> None:
        """Append a group of rows; earlier groups are in the file when this returns.

        The same groups make the same bytes.

        Args:
            rows: At least one row, with the schema that the file was opened with.
        """

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write the end of the file; the file itself stays open.

        Args:
            metadata: Attributes of the file, for formats that have a place for them.
        """

    def discard(self) -> None:
        """Release all resources, instead of `close`: the file will not be used."""


class FileFormat(Protocol):
    """Format of files; picklable, because tasks have it."""

    @property
    def extension(self) -> str:
        """Return the extension of file names, without the dot."""

    def open(self, file: BinaryIO, schema: pa.Schema) -> FileWriter:
        """Begin a file.

        Args:
            file: File to write to; borrowed, and only its `write` is called.
            schema: Schema of the rows that will be written.
        """
