"""Every exception that the metadata package raises.

Their attributes have what a caller needs to decide; the text is for people.
"""

from __future__ import annotations

from pathlib import Path


class MetadataError(Exception):
    """Base of all errors of this package."""


class StorageLockedError(MetadataError):
    """Another process has locked the data directory.

    Attributes:
        path: Path of the LOCK file.
        pid: Process that has locked it; None if it has not written its number yet.
    """

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"data directory is in use by {holder}: {path}")


class StorageFormatError(MetadataError):
    """The data directory has a version that this program does not read.

    Attributes:
        path: Path of the FORMAT file.
        found: Version in the file; None if the directory has data but no such file.
        supported: Version that this program writes.
    """

    def __init__(self, path: Path, found: str | None, supported: str) -> None:
        self.path = path
        self.found = found
        self.supported = supported
        what = "missing" if found is None else repr(found)
        super().__init__(f"data format of {path} is {what}, expected {supported!r}")


class StorageUnavailableError(MetadataError):
    """The data directory cannot be created, opened or written.

    Attributes:
        path: File or directory whose operation failed.
        cause: Error of the operating system.
    """

    def __init__(self, path: Path, cause: OSError) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"data directory is unusable at {path}: {cause.strerror or cause}")


class DocumentWriteError(MetadataError):
    """A document could not be made durable; the disk has the old or the new one.

    Attributes:
        path: Path of the document's file.
        cause: Error of the operating system.
    """

    def __init__(self, path: Path, cause: OSError) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"metadata document {path} could not be written: {cause}")


class UnstorableDocumentError(MetadataError):
    """A document would change on its way through JSON; nothing was written.

    Attributes:
        kind: Kind of the document.
        name: Name of the document.
        reason: Value that cannot be stored (NaN, bytes, a tuple, a key that is not text, ...).
    """

    def __init__(self, kind: str, name: str, reason: str) -> None:
        self.kind = kind
        self.name = name
        self.reason = reason
        super().__init__(f"{kind} document {name!r} cannot be stored as JSON: {reason}")


class DocumentFormatError(MetadataError):
    """The content of a document's file is invalid.

    Attributes:
        reason: What is wrong with it.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
