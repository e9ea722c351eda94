"""Errors of the append log: one class per failure, attributes as well as text."""

import sys
from pathlib import Path


class LogError(Exception):
    """Base of everything that `appendlog` raises for the world's mistakes."""


class CorruptRecordError(LogError):
    """Bytes that were once on the disk are not what was written.

    Attributes:
        path: File.
        position: Where in the file the damage begins.
        offset: The first offset that may be lost.
        reason: What was expected.
    """

    def __init__(self, path: Path, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{path}: damaged at position {position}, offset {offset}: {reason}")
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason


class OffsetOutOfRangeError(LogError):
    """An offset was asked for that the log does not hold, or not any more.

    Attributes:
        offset: What was asked for.
        log_start_offset: Lowest offset of the log, inclusive.
        log_end_offset: End of the log, exclusive.
    """

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside [{log_start_offset}, {log_end_offset})")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class LogFailedError(LogError):
    """A write or fsync of this log failed; it takes no more for ever after.

    Attributes:
        path: File or directory that the call was for.
        cause: What the operating system (or, for a bug, Python) said.
    """

    def __init__(self, path: Path, cause: Exception) -> None:
        super().__init__(f"{path}: log failed: {cause}")
        self.path = path
        self.cause = cause


class LogClosedError(LogError):
    """A log was used after it was closed.

    Attributes:
        directory: Of the log.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory}: log is closed")
        self.directory = directory


class RecordTooLargeError(LogError):
    """A record is longer than any reader has to take; nothing was appended.

    Attributes:
        record_bytes: Of it, with key and headers.
        bytes_max: What it may have.
    """

    def __init__(self, record_bytes: int, bytes_max: int) -> None:
        super().__init__(f"record has {record_bytes} bytes, at most {bytes_max} allowed")
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
            "send them a packed environment (docs/spark.md, Packaging)",
            name=package,
        )


class MisplacedSegmentError(LogError):
    """A segment's file has the name of another segment, and its own place is empty.

    Attributes:
        path: File.
        file_name: The name that it should have, as its header says.
        offsets: `[start, end)` of the log that are in no other file.
    """

    def __init__(self, path: Path, file_name: str, offsets: tuple[int, int]) -> None:
        start, end = offsets
        super().__init__(
            f"{path}: its header says {file_name}, and no other file has offsets [{start}, {end}): "
            "rename it while nothing uses the log, or let `amqp-server repair` do it"
        )
        self.path = path
        self.file_name = file_name
        self.offsets = offsets


class UnsupportedFormatError(LogError):
    """A file is valid but of a format version that this program does not read.

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
