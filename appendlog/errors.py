"""Errors of the append log: one class per kind of failure, with attributes for programs."""

import sys
from pathlib import Path


class LogError(Exception):
    """Base class of all errors that `appendlog` raises for bad files, bad input and failed I/O."""


class CorruptRecordError(LogError):
    """Bytes that were once on the disk are not what was written.

    Attributes:
        path: File that is damaged.
        position: Position in the file, in bytes, where the damage begins.
        offset: First offset that may be lost.
        reason: Why the bytes are not valid, in a few words.
    """

    def __init__(self, path: Path, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{path}: damaged at position {position}, offset {offset}: {reason}")
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason


class OffsetOutOfRangeError(LogError):
    """The log does not hold the requested offset: not yet, or not any more.

    Attributes:
        offset: Offset that the caller requested.
        log_start_offset: Lowest offset of the log, inclusive.
        log_end_offset: End of the log, exclusive.
    """

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside [{log_start_offset}, {log_end_offset})")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class LogFailedError(LogError):
    """A write or sync of this log failed; the log is read-only until it is reopened.

    Attributes:
        path: File or directory of the failed call.
        cause: Error of the operating system; for a bug, the Python exception.
    """

    def __init__(self, path: Path, cause: Exception) -> None:
        super().__init__(f"{path}: log failed: {cause}")
        self.path = path
        self.cause = cause


class LogClosedError(LogError):
    """A caller used a log after closing it.

    Attributes:
        directory: Directory of the log.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory}: log is closed")
        self.directory = directory


class RecordTooLargeError(LogError):
    """A record is longer than readers accept; nothing was appended.

    Attributes:
        record_bytes: Size of the record with its key and headers, in bytes.
        bytes_max: Maximum size, in bytes.
    """

    def __init__(self, record_bytes: int, bytes_max: int) -> None:
        super().__init__(f"record has {record_bytes} bytes, the maximum is {bytes_max}")
        self.record_bytes = record_bytes
        self.bytes_max = bytes_max


class MissingPackageError(ImportError):
    """A package that `pip install amqp-server` installs is missing in this Python.

    No `LogError`: the log is whole, and code that skips damage must not skip this.

    Attributes:
        name: The package.
    """

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(
            f"the package {package} is missing in {sys.executable}, and {purpose} need it: "
            f"pip install {package} there; on workers of Spark install 'amqp-server[spark]' or "
            "send them a packed environment (docs/spark-clusters.md, Packaging)",
            name=package,
        )


class MisplacedSegmentError(LogError):
    """A segment's file bears the name of another segment, and no file bears its own name.

    Attributes:
        path: File with the wrong name.
        file_name: Correct name, from the header of the segment.
        offsets: Offsets `[start, end)` of the log that no other file holds.
    """

    def __init__(self, path: Path, file_name: str, offsets: tuple[int, int]) -> None:
        start, end = offsets
        super().__init__(
            f"{path}: its header says {file_name}, and no other file has offsets [{start}, {end}): "
            "rename it while nothing uses the log, or run `amqp-server repair`"
        )
        self.path = path
        self.file_name = file_name
        self.offsets = offsets


class UnsupportedFormatError(LogError):
    """A file is valid, but this program cannot read its format version.

    Attributes:
        path: File.
        found: Version in the file.
        supported: Version that this program reads.
    """

    def __init__(self, path: Path, found: int, supported: int) -> None:
        super().__init__(f"{path}: format version {found} found, {supported} supported")
        self.path = path
        self.found = found
        self.supported = supported
