"""What an exported file is made by: one small protocol, one class for each kind of file.

A format knows nothing of logs, offsets or outputs. It gets rows in groups and puts them into
a binary file that somebody else opened and will close; where a file ends is decided between
two groups, by whoever writes it.
"""

from collections.abc import Mapping
from typing import BinaryIO, Protocol

import pyarrow as pa


class FileWriter(Protocol):
    """One file that is being written."""

    def write(self, rows: pa.Table) -> None:
        """Append a group of rows; what was written before is in the file when this returns.

        The same groups make the same bytes.

        Args:
            rows: Of the schema that the file was opened with; at least one.
        """

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write what stands at the end of a file; the file itself stays open.

        Args:
            metadata: What the file is to say of itself, in a format that has a place for it.
        """

    def discard(self) -> None:
        """Let go of what it holds, in place of `close`: nobody will read the file."""


class FileFormat(Protocol):
    """A kind of file; picklable, since tasks carry it."""

    @property
    def extension(self) -> str:
        """Return the end of a file's name, without its dot."""

    def open(self, file: BinaryIO, schema: pa.Schema) -> FileWriter:
        """Begin a file.

        Args:
            file: To write to; only `write` is called. Borrowed.
            schema: Of the rows that will come.
        """
